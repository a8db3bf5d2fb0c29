"""Interface of the three evaluation backends. At most one evaluation runs at a time."""

from typing import Protocol

from train.run_evaluation.pending_evaluation import PendingEvaluation


class EvaluationBackend(Protocol):
    """Where evaluations are made. The loop calls all of these methods from one thread."""

    @property
    def has_ended(self) -> bool:
        """Whether the evaluation that was begun is over."""

    def can_still_run(self, pending: PendingEvaluation, step: int) -> bool:
        """Return whether an evaluation can still be made after this step."""

    def begin(self, pending: PendingEvaluation) -> None:
        """Begin an evaluation, or make it."""

    def on_engine_idle(self) -> None:
        """Note that the run's engine draws what was asked of it, and is free after that."""

    def wait_for_engine(self) -> None:
        """Wait until the run's engine may get new weights."""

    def finish(self) -> None:
        """Wait until the evaluation that was begun is over."""

    def failure_reason(self) -> str:
        """Return why the evaluation that is over has not found all it should."""

    def close(self) -> None:
        """Give up an evaluation that is not over."""
