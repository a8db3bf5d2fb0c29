"""Interface of the three evaluation backends. At most one evaluation runs at a time.

MERGED Evaluation within the step: the run waits for it.

MERGED Evaluation with the run's engine while it would wait for the learner.

The engine has the weights after a step until it gets those after the next one. When it has drawn the next batch with
them, it evaluates them, in a thread, while the learner trains on that batch. The run waits for what is left.

MERGED Evaluation in a process of its own, with an engine of its own.

The process begins with the evaluation and ends with it, and reads the weights from files, as any tool would. So a
failure costs no more than this evaluation, and nothing of the run's engines, weights or random numbers is touched. The
price is one start of an engine for each evaluation, which the run does not wait for.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from train.config import Config
from train.rollouts.pipeline import Pipeline
from train.run.pending_evaluation import FOLDER, PendingEvaluation, RunSuite, evaluate_suites
from train.sampling.protocol import Sampler


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


log = logging.getLogger(__name__)

_LOG = "own.log"


class ProcessBackend:
    """A Place (backend.py). run: folder of the run"""

    def __init__(self, run: Path) -> None:
        self._log = run / FOLDER / _LOG
        self._process: subprocess.Popen[bytes] | None = None
        self._refusal = ""  # why there is no process

    @property
    def has_ended(self) -> bool:
        if self._is_running and self._has_ended(os.WNOHANG):
            self._end()
        return not self._is_running

    @property
    def pid(self) -> int | None:
        """Return the id of the process that evaluates."""
        return None if self._process is None else self._process.pid

    def can_still_run(self, pending: PendingEvaluation, step: int) -> bool:
        return pending.step == step or pending.model_folder.exists()

    def begin(self, pending: PendingEvaluation) -> None:
        self._process, self._refusal = None, ""
        try:
            self._process = self._started(pending)
        except OSError as error:
            self._refusal = f"its process cannot be started: {error}"

    def on_engine_idle(self) -> None:
        """Do nothing."""

    def wait_for_engine(self) -> None:
        """Do nothing."""

    def finish(self) -> None:
        if self._is_running:
            log.info("waits for the evaluation that is not over")
            self._has_ended(0)
            self._end()

    def failure_reason(self) -> str:
        if self._refusal:
            return self._refusal
        code = None if self._process is None else self._process.returncode
        if code is not None and code < 0:
            return f"its process was killed by signal {-code}"
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() if self._log.exists() else []
        said = next((line.removeprefix("Error: ") for line in reversed(lines) if line.strip()), "it said nothing")
        return f"{said} (see {self._log})"

    def close(self) -> None:
        if self._is_running:
            self._end()
        self._process = None

    def _started(self, pending: PendingEvaluation) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "train.run.evaluation_process", str(pending.folder)],
                stdin=subprocess.PIPE,  # closed when this process is gone, which ends that one
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the trainer
            )

    @property
    def _is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def _has_ended(self, options: int) -> bool:
        """Return whether the process has ended. It keeps its id, so that `_end` reaches its group and no other one."""
        assert self._process is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | options) is not None

    def _end(self) -> None:
        """End the process, if it has not ended, and what it has left: vLLM has processes for the GPUs of an engine."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
