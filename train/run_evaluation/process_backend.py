"""Evaluation in a process of its own, with an engine of its own.

The process begins with the evaluation and ends with it, and reads the weights from files, as any tool would. So a
failure costs no more than this evaluation, and nothing of the run's engines, weights or random numbers is touched. The
price is one start of an engine for each evaluation, which the run does not wait for.
"""

import logging
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from train.run_evaluation.pending_evaluation import PendingEvaluation
from train.run_evaluation.result_paths import FOLDER

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
                [sys.executable, "-m", "train.run_evaluation.evaluation_process", str(pending.folder)],
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
