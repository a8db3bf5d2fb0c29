"""Batches of scored completions, and new weights for the sampler.

questions.py       the problems of a dataset as prompts, in an order that the seed decides
scoring.py         the rewards of a run, from its configuration
batch.py           a batch: sampled, scored, filtered and refilled
overlap.py         the pipelines: when a batch is sampled while another is trained on
context_stages.py  stages that lengthen answers in the course of a run
weight_sync.py     new weights for the sampler, and the proof that it uses them
"""
