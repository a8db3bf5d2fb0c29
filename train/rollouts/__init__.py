"""Batches of scored completions, and new weights for the sampler.

Begin with pipeline.py: when a batch is sampled, and when it is trained on. groups.py samples, scores and filters it,
prompt_dataset.py has the prompts and rewards.py the rewards; weight_sync.py hands over weights and proves that the
sampler uses them. context_schedule.py has the stages that lengthen answers.
"""
