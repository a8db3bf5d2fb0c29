"""Evaluation within the step: the run waits for it."""

from collections.abc import Callable, Sequence

from train.config import Config
from train.run_evaluation.pending_evaluation import PendingEvaluation
from train.run_evaluation.run_suites import RunSuite
from train.run_evaluation.suite_evaluations import evaluate_suites
from train.sampling.protocol import Sampler


class InlineBackend:
    """A Place (backend.py) that evaluates with the run's engine at once.

    sampler: returns the run's sampler

    Errors of the sampler and the sandbox end the run.
    """

    has_ended = True

    def __init__(self, config: Config, suites: Sequence[RunSuite], sampler: Callable[[], Sampler]) -> None:
        self._config = config
        self._suites = suites
        self._sampler = sampler

    def can_still_run(self, pending: PendingEvaluation, step: int) -> bool:
        return pending.step == step

    def begin(self, pending: PendingEvaluation) -> None:
        evaluate_suites(self._config, self._suites, self._sampler(), pending)

    def on_engine_idle(self) -> None:
        """Do nothing."""

    def wait_for_engine(self) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""

    def failure_reason(self) -> str:
        return ""

    def close(self) -> None:
        """Do nothing."""
