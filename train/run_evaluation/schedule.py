"""When a run is evaluated: before the first step, after the last, and by steps, by time, or both in between."""

from train.config import EvaluationConfig


class EvaluationSchedule:
    """Says when an evaluation is due.

    last_step  the last step of the run
    seconds    when the latest evaluation began, in seconds since the run's start
    """

    def __init__(self, settings: EvaluationConfig, last_step: int, *, seconds: float) -> None:
        self.seconds = seconds
        self._settings = settings
        self._last_step = last_step

    def is_due(self, step: int, seconds: float) -> bool:
        """Return whether the weights after this step, made so many seconds after the run's start, are evaluated."""
        by_steps, by_seconds = self._settings.every_steps, self._settings.every_minutes * 60
        return (
            step in (0, self._last_step)
            or (by_steps > 0 and step % by_steps == 0)
            or (by_seconds > 0 and seconds - self.seconds >= by_seconds)
        )

    def record_start(self, seconds: float) -> None:
        """Note that an evaluation has begun."""
        self.seconds = seconds
