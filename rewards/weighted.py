"""The weighted sum of several rewards."""

import math
from collections.abc import Iterable
from typing import Any

from rewards.argument_checks import check_callable, check_number, check_str
from rewards.reward import Completion, Reward, RewardCallable, Task

_Part = tuple[float, RewardCallable, str]


class WeightedReward:
    """The weighted sum of rewards.

    parts: a list of (weight, reward) or (weight, reward, name)

    The verdict is the first nonempty one; `Reward.parts` has the unweighted value of each named reward. After an
    unknown reward, the sum is unknown, with its verdict, and later rewards are not called. If any reward has steps, the
    sum has the weighted steps of all rewards. A reward without steps counts as one step, the whole completion.

    Raises ValueError for an empty list or a weight that is not finite, and TypeError for other types.
    """

    def __init__(self, parts: Iterable[tuple[float, RewardCallable] | _Part]) -> None:
        if not isinstance(parts, Iterable):
            raise TypeError(f"parts must be a list of pairs (weight, reward), not {type(parts).__name__}")
        self._parts = tuple(map(_check_part, parts))
        if not self._parts:
            raise ValueError("a weighted reward needs at least one part")

    def __call__(self, completion: Completion, task: Task) -> Reward:
        seconds = 0.0
        results: list[Reward] = []
        for _, score, _ in self._parts:
            reward = score(completion, task)
            seconds += reward.seconds
            results.append(reward)
            if reward.value is None:
                return Reward(None, reward.verdict, seconds, reward.detail, self._name_values(results))
        weights = [weight for weight, _, _ in self._parts]
        total = sum(weight * (reward.value or 0.0) for weight, reward in zip(weights, results, strict=True))
        verdict = next((reward.verdict for reward in results if reward.verdict), "")
        return Reward(
            total,
            verdict,
            seconds,
            "",
            self._name_values(results),
            _merge_steps(weights, results, len(completion.text)),
        )

    def _name_values(self, results: list[Reward]) -> tuple[tuple[str, float], ...]:
        """Return name and value of each reward; nan for a reward that is unknown or was not called."""
        values = [math.nan if reward.value is None else reward.value for reward in results]
        values += [math.nan] * (len(self._parts) - len(results))
        return tuple((name, value) for (_, _, name), value in zip(self._parts, values, strict=True) if name)


def _merge_steps(weights: list[float], results: list[Reward], length: int) -> tuple[tuple[int, float], ...]:
    if not any(reward.steps for reward in results):
        return ()
    steps = [
        (end, weight * value)
        for weight, reward in zip(weights, results, strict=True)
        for end, value in reward.steps or ((length, reward.value or 0.0),)
    ]
    return tuple(sorted(steps, key=lambda step: step[0]))


def _check_part(part: Any) -> _Part:
    if not (isinstance(part, tuple | list) and len(part) in (2, 3)):
        raise TypeError(
            f"each part must be a pair (weight, reward), such as (1.0, CodeReward(box)), not {part!r}"[:200]
        )
    weight, score, *name = part
    check_number("a weight", weight)
    check_callable("the second of a pair (weight, reward)", score, "CodeReward(box)")
    if name:
        check_str("the name of a reward", name[0])
    return weight, score, name[0] if name else ""
