"""Batches of scored completions, and new weights for the sampler.

problems.py          the problems of one dataset, or of a file of prompts and answers
mixture.py           which of several datasets a position takes its prompt from
prompt_dataset.py    these problems as prompts, in an order that the seed decides
custom_reward.py     a reward function of one's own
scoring.py           the rewards of a run, from its configuration
batch_collector.py   a batch: sampled, scored, filtered and refilled
step_boundaries.py   where the steps of an answer end, if they have rewards of their own
advantages.py        what the learner sees of a group: sequences with advantages
pipeline.py          what the loop needs of a pipeline
batch_pipeline.py    the pipelines that sample batch by batch
batch_scheduler.py   when they sample a batch while another is trained on
context_schedule.py  stages that lengthen answers in the course of a run
weight_sync.py       new weights for the sampler, and the proof that it uses them
"""
