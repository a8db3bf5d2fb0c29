"""Evaluation with the run's engine while it would wait for the learner.

The engine has the weights after a step until it gets those after the next one. When it has drawn the next batch with
them, it evaluates them, in a thread, while the learner trains on that batch. The run waits for what is left.
"""

import threading
from collections.abc import Callable, Sequence

from train.config import Config
from train.rollouts.pipeline import Pipeline
from train.run_evaluation.pending_evaluation import PendingEvaluation
from train.run_evaluation.run_suites import RunSuite
from train.run_evaluation.suite_evaluations import evaluate_suites


class OverlappedBackend:
    """A Place (backend.py). Errors of the sampler and the sandbox end the run."""

    def __init__(self, config: Config, suites: Sequence[RunSuite], pipeline: Pipeline) -> None:
        self._config = config
        self._suites = suites
        self._pipeline = pipeline
        self._pending: PendingEvaluation | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        return self._pending is None

    def can_still_run(self, pending: PendingEvaluation, step: int) -> bool:
        return pending.step == step

    def begin(self, pending: PendingEvaluation) -> None:
        self._pending = pending

    def on_engine_idle(self) -> None:
        if self._pending is not None and self._thread is None:
            self._thread = threading.Thread(target=self._in_thread(self._pending), name="evaluation", daemon=True)
            self._thread.start()

    def wait_for_engine(self) -> None:
        self.finish()

    def finish(self) -> None:
        self.on_engine_idle()
        if self._thread is not None:
            self._thread.join()
        self._pending = self._thread = None
        if self._error is not None:
            raise self._error

    def failure_reason(self) -> str:
        return ""

    def close(self) -> None:
        """Do nothing: the thread ends when the run closes the engine."""

    def _in_thread(self, pending: PendingEvaluation) -> Callable[[], None]:
        def evaluate() -> None:
            try:
                self._pipeline.wait_until_idle()
                evaluate_suites(self._config, self._suites, self._pipeline.sampler, pending)
            except BaseException as error:
                self._error = error

        return evaluate
