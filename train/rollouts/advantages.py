"""What the learner sees of a group: a sequence for each answer, with the advantage of each token."""

import math
from collections.abc import Sequence

import torch

from train.config import ObjectiveConfig
from train.learning.objectives import outcome_advantages, step_reward_advantages
from train.learning.sequences import TrainingSequence
from train.rollouts.batch_collector import Group, Rollout, group_rewards, step_rewards_of


def to_training_sequences(group: Group, objective: ObjectiveConfig) -> list[TrainingSequence]:
    """Return what the learner sees of a group. Completions whose reward is unknown are left out."""
    rewards = group_rewards(group, count_truncated=objective.overlong != "unknown")
    known = [(rollout, reward) for rollout, reward in zip(group, rewards, strict=True) if not math.isnan(reward)]
    advantages = _advantages(known, objective)
    return [
        TrainingSequence(
            prompt_ids=rollout.prompt_ids,
            token_ids=rollout.token_ids,
            sampler_logprobs=rollout.logprobs,
            advantages=tuple(of_tokens),
            truncated=rollout.truncated,
            reward=reward,
            sampled_mask=rollout.sampled_mask,
        )
        for (rollout, reward), of_tokens in zip(known, advantages, strict=True)
    ]


def _advantages(known: Sequence[tuple[Rollout, float]], objective: ObjectiveConfig) -> list[list[float]]:
    """Return the advantage of each token of these completions of a group, which come with their rewards."""
    lengths = [len(rollout.token_ids) for rollout, _ in known]
    if objective.supervision == "process":
        steps = [step_rewards_of(rollout) for rollout, _ in known]
        return step_reward_advantages(steps, lengths, by_std=objective.by_std, epsilon=objective.std_epsilon)
    rewards_PG = torch.tensor([[reward for _, reward in known]], dtype=torch.float64)
    (advantages,) = outcome_advantages(rewards_PG, by_std=objective.by_std, epsilon=objective.std_epsilon).tolist()
    return [[advantage] * length for advantage, length in zip(advantages, lengths, strict=True)]
