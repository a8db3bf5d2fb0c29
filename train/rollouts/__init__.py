"""Batches of scored completions, and weight updates of the sampler.

Begin with prompt_dataset.py (prompts) and rewards.py (rewards of completions); reward_model.py is a learned reward.
groups.py converts scored groups to training sequences. weight_sync.py updates and verifies the sampler's weights.
context_schedule.py has the stages of longer completions.
"""
