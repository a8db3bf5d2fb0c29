"""Workers in processes of their own on the trainer's machine, one for every engine. One that dies is started again."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from train.config import EngineConfig
from train.errors import ControllerUnreachable, SamplerError
from train.sampling.engine_spec import cuda_visible_devices, split_gpus_by_engine
from train.sampling.restart_budget import RestartBudget

log = logging.getLogger(__name__)

TOKEN_VARIABLE = "CURATE_TOKEN"  # in the environment of workers, wherever they are
_POLL_SECONDS = 0.5
_SHUTDOWN_SECONDS = 15.0


class LocalWorkers:
    """Starts a worker for every `tensor_parallel` GPUs, and starts it again if it dies.

    url    of the controller
    token  that of the run
    logs   folder for what the workers say
    gone   called with the name of a worker that has died, so that its groups need not wait until it is missed
    fail   called with the error if workers die too often

    Raises SamplerError if the run sees fewer GPUs.
    """

    def __init__(
        self,
        settings: EngineConfig,
        url: str,
        token: str | None,
        logs: Path,
        *,
        gone: Callable[[str], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._gpus = [
            cuda_visible_devices(gpus) for gpus in split_gpus_by_engine(settings.gpus, settings.tensor_parallel)
        ]
        self._url, self._logs, self._gone, self._fail = url, logs, gone, fail
        self._token = {} if token is None else {TOKEN_VARIABLE: token}
        self._restarts = RestartBudget(settings.restarts_per_hour)
        self._closing = threading.Event()
        self._n_started = 0
        self._names: dict[int, str] = {}
        logs.mkdir(exist_ok=True)
        self._processes = [self._start(number) for number in range(len(self._gpus))]
        self._watcher = threading.Thread(target=self._watch, name="local-workers", daemon=True)
        self._watcher.start()

    @property
    def pids(self) -> Sequence[int]:
        return [process.pid for process in self._processes]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait_seconds=_SHUTDOWN_SECONDS if error is None else 0.0)

    def close(self, *, wait_seconds: float) -> None:
        """End the workers, unless they end by themselves within this time because the run is over."""
        self._closing.set()
        self._watcher.join()
        until = time.monotonic() + wait_seconds
        for process in self._processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _clean_up_after(process)

    def _start(self, number: int) -> "subprocess.Popen[bytes]":
        self._n_started += 1
        self._names[number] = f"worker-{number}-{os.getpid()}-{self._n_started}"
        with self._log(number).open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "train.asynchronous.local_worker_main", self._url, self._names[number]],
                env={**os.environ, **self._token, "CUDA_VISIBLE_DEVICES": self._gpus[number]},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the trainer, which ends the workers when its step is safe
            )

    def _watch(self) -> None:
        try:
            while not self._closing.wait(_POLL_SECONDS):
                for number, process in enumerate(self._processes):
                    if process.poll() not in (None, 0) and not self._closing.is_set():
                        self._start_again(number)
        except ControllerUnreachable:
            return  # the run has stopped, and the trainer knows why
        except Exception as error:  # otherwise the run would wait for workers that never come
            self._fail(SamplerError(f"a worker cannot be started again: {error}"))

    def _start_again(self, number: int) -> None:
        how = f"the worker on GPU {self._gpus[number]} has ended: {self._last_words(number)}"
        _clean_up_after(self._processes[number])
        self._gone(self._names[number])
        if not self._restarts.spend(time.monotonic()):
            self._closing.set()
            self._fail(
                SamplerError(
                    f"{how}. Workers have ended more than {self._restarts.per_hour} times within an hour, which is "
                    f"engine.restarts_per_hour. See {self._log(number)}; the same command with --resume continues."
                )
            )
            return
        log.warning("%s; it is started again", how)
        self._processes[number] = self._start(number)

    def _last_words(self, number: int) -> str:
        code = self._processes[number].returncode
        lines = self._log(number).read_text(encoding="utf-8", errors="replace").splitlines()
        said = next((line.removeprefix("Error: ") for line in reversed(lines) if line.strip()), "it said nothing")
        return f"killed by signal {-code}" if code < 0 else said

    def _log(self, number: int) -> Path:
        return self._logs / f"worker-{number}.log"


def _clean_up_after(process: "subprocess.Popen[bytes]") -> None:
    """End what a worker that has ended left behind: vLLM has a process for each GPU of an engine that has several."""
    if process.stdin is not None:
        process.stdin.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
