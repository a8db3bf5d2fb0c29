"""Batches of scored completions, and weight updates of the sampler.

Begin with prompt_dataset.py (prompts) and rewards.py (rewards of completions); reward_model.py is a learned reward.
groups.py turns scored groups into training sequences. weight_sync.py updates the sampler's weights and verifies them.
context_schedule.py has the stages that lengthen completions.
"""
