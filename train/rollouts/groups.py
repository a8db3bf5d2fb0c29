"""Groups of rollouts, their learning signal, and their conversion to training sequences."""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import torch

from rewards.form import compute_task_reward
from rewards.reward import Completion, Reward, Task
from train.config import ObjectiveConfig
from train.learning.objectives import compute_outcome_advantages, compute_step_advantages
from train.learning.sequences import TrainingSequence

StepRewards = tuple[tuple[int, float], ...]  # for each step: its end, in characters or tokens, and its reward


def convert_steps_to_tokens(
    steps: StepRewards, text: str, token_ids: Sequence[int], decode: Callable[[Sequence[int]], str]
) -> StepRewards:
    """Convert the ends of steps from characters to tokens.

    text    text of all tokens
    decode  decodes tokens, without special tokens

    A step ends with the token that completes its text; the last step includes any end token. A character split over n
    tokens can shift an end by up to n tokens.
    """

    def count_tokens(end: int) -> int:
        if end >= len(text):
            return len(token_ids)
        return bisect_left(range(len(token_ids)), end, key=lambda n: len(decode(token_ids[:n])))

    return tuple((count_tokens(end), value) for end, value in steps)


SubmitForReward = Callable[[Completion, Task], "Future[Reward]"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """A completion with its reward, and the weight version that sampled each token.

    logprobs           the sampler's log-probabilities, after temperature
    reward             weighted sum of the reward functions; nan if unknown
    source             column `source` of the problem's dataset
    reward_components  name and unweighted value of each reward function; nan if unknown
    step_rewards       if the reward scores steps: number of tokens up to the end of each step, and its reward
    sampled_mask       True for tokens that the model sampled, False for others, such as tool output; empty: all True.
                       The loss covers only sampled tokens
    """

    problem_id: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    truncated: bool
    text: str
    reward: float
    verdict: str
    reward_seconds: float
    source: str = ""
    reward_components: tuple[tuple[str, float], ...] = ()
    step_rewards: tuple[tuple[int, float], ...] = ()
    sampled_mask: tuple[bool, ...] = ()


Group = tuple[Rollout, ...]


def list_group_rewards(group: Group, *, count_truncated: bool = True) -> list[float]:
    """Return the reward of each completion; nan if unknown.

    count_truncated: False treats the rewards of truncated completions as unknown
    """
    return [rollout.reward if count_truncated or not rollout.truncated else math.nan for rollout in group]


def list_step_rewards(rollout: Rollout) -> tuple[tuple[int, float], ...]:
    """Return the completion's step rewards. If it has none, treat the whole completion as one step."""
    return rollout.step_rewards or ((len(rollout.token_ids), rollout.reward),)


def classify_group_signal(group: Group, *, count_truncated: bool = True, use_step_rewards: bool = False) -> str:
    """Classify the group's learning signal: "some" if its task rewards differ, else the reason for no signal.

    use_step_rewards: compare the rewards of steps instead of the completions' rewards
    """
    return classify_signal(
        [(compute_task_reward(rollout.reward, rollout.reward_components), rollout.truncated) for rollout in group],
        count_truncated=count_truncated,
        step_rewards=[[value for _, value in rollout.step_rewards] for rollout in group] if use_step_rewards else (),
    )


def classify_signal(
    rewards: Sequence[tuple[float, bool]], *, count_truncated: bool = True, step_rewards: Sequence[Sequence[float]] = ()
) -> str:
    """Classify a group's learning signal as `classify_group_signal` does.

    rewards       task reward of each completion, and whether the completion is truncated
    step_rewards  rewards of each completion's steps, to compare instead; a completion without any is one step
    """
    indices = [
        index
        for index, (reward, truncated) in enumerate(rewards)
        if not math.isnan(reward) and (count_truncated or not truncated)
    ]
    if not indices:
        return "unknown" if all(math.isnan(reward) for reward, _ in rewards) else "cut_off"
    known = {rewards[index][0] for index in indices}
    compared = known
    if step_rewards:
        compared = {value for index in indices for value in step_rewards[index] or (rewards[index][0],)}
    if len(compared) > 1:
        return "some"
    return "none" if min(known) <= 0 else "all"


def derive_sample_seed(seed: int, position: int, number: int) -> int:
    """Return the reproducible seed of sample `number` for the prompt at a position."""
    digest = hashlib.sha256(f"{seed} {position} {number}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def to_training_sequences(group: Group, objective: ObjectiveConfig) -> list[TrainingSequence]:
    """Convert a group to training sequences; drop completions with an unknown reward."""
    rewards = list_group_rewards(group, count_truncated=objective.overlong != "unknown")
    scored = [(rollout, reward) for rollout, reward in zip(group, rewards, strict=True) if not math.isnan(reward)]
    advantages = _compute_advantages(scored, objective)
    return [
        TrainingSequence(
            prompt_ids=rollout.prompt_ids,
            token_ids=rollout.token_ids,
            sampler_logprobs=rollout.logprobs,
            advantages=tuple(token_advantages),
            truncated=rollout.truncated,
            reward=reward,
            sampled_mask=rollout.sampled_mask,
        )
        for (rollout, reward), token_advantages in zip(scored, advantages, strict=True)
    ]


def _compute_advantages(scored: Sequence[tuple[Rollout, float]], objective: ObjectiveConfig) -> list[list[float]]:
    lengths = [len(rollout.token_ids) for rollout, _ in scored]
    if objective.supervision == "process":
        steps = [list_step_rewards(rollout) for rollout, _ in scored]
        return compute_step_advantages(steps, lengths, by_std=objective.by_std, epsilon=objective.std_epsilon)
    rewards_PG = torch.tensor([[reward for _, reward in scored]], dtype=torch.float64)
    (advantages,) = compute_outcome_advantages(
        rewards_PG, by_std=objective.by_std, epsilon=objective.std_epsilon
    ).tolist()
    return [[advantage] * length for advantage, length in zip(advantages, lengths, strict=True)]
