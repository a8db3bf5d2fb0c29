"""Iterative context lengthening, as in DeepScaleR and DeepCoder: stages with growing completion lengths.

A stage ends after a step, or when the mean truncated share over some steps reaches a bound.
"""

from collections import deque
from collections.abc import Sequence

from train.config import StageConfig


class ContextSchedule:
    """The stages of a run and the current one. Checkpoints store `index` and `recent_truncated`.

    index             index of the current stage
    recent_truncated  truncated share of each recent step
    sampled_ahead     whether each batch is sampled one step early, so the first batch of a stage has the previous
                      stage's length
    """

    def __init__(
        self,
        stages: Sequence[StageConfig],
        index: int = 0,
        recent_truncated: Sequence[float] = (),
        *,
        sampled_ahead: bool = False,
    ) -> None:
        self._stages = stages
        self._sampled_ahead = sampled_ahead
        self.index = index
        self.recent_truncated = deque(recent_truncated, maxlen=1 + max(stage.over_steps for stage in stages))

    @property
    def max_tokens(self) -> int:
        return self._stages[self.index].max_tokens

    def advance(self, step: int, clipped_ratio: float) -> bool:
        """Record a step's truncated share. Return whether this begins the next stage."""
        stage = self._stages[self.index]
        self.recent_truncated.append(clipped_ratio)
        of_stage = list(self.recent_truncated)[int(self._sampled_ahead and self.index > 0) :][-stage.over_steps :]
        by_step = bool(stage.until_step) and step >= stage.until_step
        by_ratio = (
            stage.until_clipped > 0
            and len(of_stage) == stage.over_steps
            and sum(of_stage) / len(of_stage) >= stage.until_clipped
        )
        if self.index + 1 == len(self._stages) or not (by_step or by_ratio):
            return False
        self.index += 1
        self.recent_truncated.clear()
        return True
