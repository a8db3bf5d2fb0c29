"""Batches of scored completions, and new weights for the sampler.

Begin with prompt_dataset.py, the prompts, and rewards.py, the rewards of completions; reward_model.py has those of a
model. groups.py says what scored groups teach; weight_sync.py hands over weights and proves that the sampler uses them.
context_schedule.py has the stages that lengthen answers.
"""
