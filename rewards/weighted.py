"""Several rewards as one: their weighted sum."""

import math
from collections.abc import Iterable

from rewards.reward import Answer, Reward, Score, Task


class Weighted:
    """Each part is (weight, reward). The first one's verdict is that of the whole.

    What one part knows nothing of, the whole knows nothing of: the verdict is then that part's, and later parts are
    not asked. Raises ValueError for no part, or a weight that is no finite number.
    """

    def __init__(self, parts: Iterable[tuple[float, Score]]) -> None:
        self._parts = tuple(parts)
        if not self._parts:
            raise ValueError("a weighted reward needs at least one part")
        if wrong := [weight for weight, _ in self._parts if not math.isfinite(weight)]:
            raise ValueError(f"weights are finite numbers, not {wrong[0]}")

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
