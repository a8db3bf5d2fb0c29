"""Groups of completions with their rewards: what a group teaches, and what the learner sees of it.

The learner sees a sequence for each answer, with the advantage of each token. Where the steps of an answer have rewards
of their own, rewards count characters of its text, and the learner counts tokens.
"""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import torch

from rewards.form import task_reward
from rewards.reward import Completion, Reward, Task
from train.config import ObjectiveConfig
from train.learning.objectives import outcome_advantages, step_reward_advantages
from train.learning.sequences import TrainingSequence

StepRewards = tuple[tuple[int, float], ...]  # the end of each step, and its reward


def steps_in_tokens(
    steps: StepRewards, text: str, token_ids: Sequence[int], decode: Callable[[Sequence[int]], str]
) -> StepRewards:
    """Return the steps with their ends in tokens instead of characters.

    text    the text of all tokens
    decode  returns the text of some tokens, without special ones

    A step ends with the token that completes its text; one that reaches the end of the text takes all tokens, also the
    one that ended the answer. A character that is split between tokens can move an end by as many tokens.
    """

    def end_in_tokens(end: int) -> int:
        if end >= len(text):
            return len(token_ids)
        return bisect_left(range(len(token_ids)), end, key=lambda n: len(decode(token_ids[:n])))

    return tuple((end_in_tokens(end), value) for end, value in steps)


# Takes an answer and its task; the reward comes later.
SubmitForReward = Callable[[Completion, Task], "Future[Reward]"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion of a problem's prompt, with its reward and the version of the weights that drew each token.

    source             where the problem comes from: the column `source` of its dataset
    reward_components  name and value of each reward function, before its weight; nan where it is unknown
    step_rewards       for each step that has a reward of its own, the number of tokens up to its end, and that reward
    sampled_mask       for each token, whether the model drew it; empty: it drew all of them. Others, such as the output
                       of a tool between two turns, are read but not learned
    """

    problem_id: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]  # those of the sampler, after temperature
    versions: tuple[int, ...]
    truncated: bool
    text: str
    reward: float  # nan: no signal
    verdict: str
    reward_seconds: float
    source: str = ""
    reward_components: tuple[tuple[str, float], ...] = ()
    step_rewards: tuple[tuple[int, float], ...] = ()
    sampled_mask: tuple[bool, ...] = ()


Group = tuple[Rollout, ...]


def group_rewards(group: Group, *, count_truncated: bool = True) -> list[float]:
    """Return the reward of each completion; nan where it is unknown.

    count_truncated: whether the reward of a completion that was cut off counts; otherwise it is unknown.
    """
    return [rollout.reward if count_truncated or not rollout.truncated else math.nan for rollout in group]


def step_rewards_of(rollout: Rollout) -> tuple[tuple[int, float], ...]:
    """Return the rewards of the steps of a completion. Without such rewards, all of it is one step."""
    return rollout.step_rewards or ((len(rollout.token_ids), rollout.reward),)


def group_signal(group: Group, *, count_truncated: bool = True, use_step_rewards: bool = False) -> str:
    """Classify the group's learning signal: "some" if its task rewards differ, or why it teaches nothing.

    use_step_rewards: whether the rewards of steps teach, instead of those of whole answers.
    """
    return signal_from_rewards(
        [(task_reward(rollout.reward, rollout.reward_components), rollout.truncated) for rollout in group],
        count_truncated=count_truncated,
        step_rewards=[[value for _, value in rollout.step_rewards] for rollout in group] if use_step_rewards else (),
    )


def signal_from_rewards(
    rewards: Sequence[tuple[float, bool]], *, count_truncated: bool = True, step_rewards: Sequence[Sequence[float]] = ()
) -> str:
    """Return what `group_signal` says of a group, given each completion's task reward and whether it was cut off.

    step_rewards: the rewards of the steps of each completion, if they teach instead of the others; without any, the
    completion is one step.
    """
    places = [
        place
        for place, (reward, truncated) in enumerate(rewards)
        if not math.isnan(reward) and (count_truncated or not truncated)
    ]
    if not places:
        return "unknown" if all(math.isnan(reward) for reward, _ in rewards) else "cut_off"
    known = {rewards[place][0] for place in places}
    taught = (
        {value for place in places for value in step_rewards[place] or (rewards[place][0],)} if step_rewards else known
    )
    if len(taught) > 1:
        return "some"
    return "none" if min(known) <= 0 else "all"


def sample_seed(seed: int, position: int, number: int) -> int:
    """Return the seed of one sample: never the same twice in a run, always the same when the run is repeated."""
    digest = hashlib.sha256(f"{seed} {position} {number}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


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
