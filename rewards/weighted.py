"""Several rewards as one: their weighted sum."""

import math
from collections.abc import Iterable

from rewards.reward import Answer, Reward, Score, Task

__all__ = ["Weighted"]


class Weighted:
    """Adds up rewards, each given as a pair (weight, reward). The verdict is that of the first reward.

    If one of them is unknown, so is the sum: it then has the verdict of that reward, and later rewards are not called.
    Raises ValueError if no reward is given, or a weight is not a finite number.
    """

    def __init__(self, parts: Iterable[tuple[float, Score]]) -> None:
        self._parts = tuple(parts)
        if not self._parts:
            raise ValueError("a weighted reward needs at least one part")
        if wrong := [weight for weight, _ in self._parts if not math.isfinite(weight)]:
            raise ValueError(f"weights must be finite numbers, not {wrong[0]}")

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
