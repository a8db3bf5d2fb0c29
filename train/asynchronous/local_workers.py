"""Supervision of the worker processes on the trainer's machine, one for each engine."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from train.asynchronous.rollout_process import TOKEN_VARIABLE
from train.child import Child, RestartBudget
from train.config import EngineConfig
from train.errors import ControllerUnreachable, SamplerError
from train.sampling.engine_spec import resolve_visible_devices, split_gpus_by_engine

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_SHUTDOWN_SECONDS = 15.0


class LocalWorkers:
    """One worker process for every `tensor_parallel` GPUs, restarted after a failure.

    url      URL of the controller
    token    the run's token; None if it has none
    logs     folder for the output of the workers
    on_exit  called with the name of an exited worker, to end its leases
    fail     called with the error after more restarts than `restarts_per_hour`, or if a restart fails

    Raises SamplerError if a GPU in the settings is not visible.
    """

    def __init__(
        self,
        settings: EngineConfig,
        url: str,
        token: str | None,
        logs: Path,
        *,
        on_exit: Callable[[str], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._gpus = [
            resolve_visible_devices(gpus) for gpus in split_gpus_by_engine(settings.gpus, settings.tensor_parallel)
        ]
        self._url, self._logs, self._on_exit, self._fail = url, logs, on_exit, fail
        self._token = {} if token is None else {TOKEN_VARIABLE: token}
        self._restarts = RestartBudget(settings.restarts_per_hour)
        self._closing = threading.Event()
        self._n_started = 0
        self._names: dict[int, str] = {}
        logs.mkdir(exist_ok=True)
        self._children = [self._start(number) for number in range(len(self._gpus))]
        self._watcher = threading.Thread(target=self._watch, name="local-workers", daemon=True)
        self._watcher.start()

    @property
    def pids(self) -> Sequence[int]:
        return [child.pid for child in self._children]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait_seconds=_SHUTDOWN_SECONDS if error is None else 0.0)

    def close(self, *, wait_seconds: float) -> None:
        """Terminate the workers that have not exited after `wait_seconds`."""
        self._closing.set()
        self._watcher.join()
        until = time.monotonic() + wait_seconds
        for child in self._children:
            child.wait(until - time.monotonic())
            child.end()

    def _start(self, number: int) -> Child:
        self._n_started += 1
        self._names[number] = f"worker-{number}-{os.getpid()}-{self._n_started}"
        return Child(
            "train.asynchronous.rollout_process",
            self._url,
            self._names[number],
            log=self._logs / f"worker-{number}.log",
            append=True,
            environment={**self._token, "CUDA_VISIBLE_DEVICES": self._gpus[number]},
        )

    def _watch(self) -> None:
        try:
            while not self._closing.wait(_POLL_SECONDS):
                for number, child in enumerate(self._children):
                    if child.poll() not in (None, 0) and not self._closing.is_set():
                        self._restart(number)
        except ControllerUnreachable:
            return  # the run has stopped, and the trainer reports why
        except Exception as error:  # without this, the run would wait for a worker that never starts
            self._fail(SamplerError(f"a worker cannot be restarted: {error}"))

    def _restart(self, number: int) -> None:
        child = self._children[number]
        message = f"the worker on GPU {self._gpus[number]} has ended: {child.describe_exit()}"
        child.end()
        self._on_exit(self._names[number])
        if not self._restarts.spend(time.monotonic()):
            self._closing.set()
            self._fail(
                SamplerError(
                    f"{message}. Workers have ended more than engine.restarts_per_hour = {self._restarts.per_hour} "
                    f"times within an hour. See {child.log}; the same command with --resume continues."
                )
            )
            return
        log.warning("%s; restarting it", message)
        self._children[number] = self._start(number)
