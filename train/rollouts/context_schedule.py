"""Iterative context lengthening, as in DeepScaleR and DeepCoder: stages with growing completion lengths.

A stage ends after a step, or when the mean truncated share over some steps reaches a bound.
"""

from collections import deque
from collections.abc import Sequence

from train.config import StageConfig


class ContextSchedule:
    """The current stage of a run.

    index             index of the current stage; saved in checkpoints, as is `recent_truncated`
    recent_truncated  truncated share of each recent step
    ahead             whether batches are sampled one step early: the first batch of a stage then has the previous
                      length
    """

    def __init__(
        self, stages: Sequence[StageConfig], index: int = 0, recent: Sequence[float] = (), *, ahead: bool = False
    ) -> None:
        self._stages = stages
        self._ahead = ahead
        self.index = index
        self.recent_truncated = deque(recent, maxlen=1 + max(stage.over_steps for stage in stages))

    @property
    def max_tokens(self) -> int:
        return self._stages[self.index].max_tokens

    def advance(self, step: int, clipped_ratio: float) -> bool:
        """Record a step's truncated share, enter the next stage if due, and return whether it began."""
        stage = self._stages[self.index]
        self.recent_truncated.append(clipped_ratio)
        of_stage = list(self.recent_truncated)[int(self._ahead and self.index > 0) :][-stage.over_steps :]
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
