"""Several rewards as one: their weighted sum."""

from collections.abc import Iterable
from typing import Any

from rewards.parameters import check_callable, check_number
from rewards.reward import Answer, Reward, Score, Task

__all__ = ["Weighted"]


class Weighted:
    """Adds up rewards, each given as a pair (weight, reward). The verdict is that of the first reward.

    If one of them is unknown, so is the sum: it then has the verdict of that reward, and later rewards are not called.
    Raises ValueError if no reward is given, or a weight is not finite, and TypeError for anything but such pairs.
    """

    def __init__(self, parts: Iterable[tuple[float, Score]]) -> None:
        if not isinstance(parts, Iterable):
            raise TypeError(f"parts must be a list of pairs (weight, reward), not {type(parts).__name__}")
        self._parts = tuple(_pair(part) for part in parts)
        if not self._parts:
            raise ValueError("a weighted reward needs at least one part")

    def __call__(self, answer: Answer, task: Task) -> Reward:
        total = seconds = 0.0
        verdict = ""
        for weight, score in self._parts:
            part = score(answer, task)
            seconds += part.seconds
            if part.value is None:
                return Reward(None, part.verdict, seconds, part.detail)
            total += weight * part.value
            verdict = verdict or part.verdict
        return Reward(total, verdict, seconds)


def _pair(part: Any) -> tuple[float, Score]:
    if not (isinstance(part, tuple | list) and len(part) == 2):
        raise TypeError(
            f"each part must be a pair (weight, reward), such as (1.0, CodeReward(box)), not {part!r}"[:200]
        )
    weight, score = part
    check_number("a weight", weight)
    check_callable("the second of a pair (weight, reward)", score, "CodeReward(box)")
    return weight, score
