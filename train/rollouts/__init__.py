"""Batches of scored completions, and new weights for the sampler.

problems.py        the problems of one dataset, or of a file of prompts and answers
mixture.py         which of several datasets a position takes its prompt from
questions.py       these problems as prompts, in an order that the seed decides
own_function.py    a reward function of one's own
scoring.py         the rewards of a run, from its configuration
batch.py           a batch: sampled, scored, filtered and refilled
steps.py           where the steps of an answer end, if they have rewards of their own
lessons.py         what the learner sees of a group: sequences with advantages
pipeline.py        what the loop needs of a pipeline
in_batches.py      the pipelines that sample batch by batch
overlap.py         when they sample a batch while another is trained on
context_stages.py  stages that lengthen answers in the course of a run
weight_sync.py     new weights for the sampler, and the proof that it uses them
"""
