"""A pool of worker processes (sandbox/jail/worker.py), each with one request at a time; those that die are replaced.

The backend decides where they run: it says how to start one.
"""

import contextlib
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from sandbox import limit_bounds
from sandbox.backends._admission import SlotAllocator
from sandbox.concurrency.cancellation import CancelToken
from sandbox.concurrency.thread_map import map_results
from sandbox.errors import BackendUnavailable, CannotIsolate, ExecutionLost, KilledExternally, SandboxError
from sandbox.jail.worker_config import CONFINING_LEVELS, NAMESPACES, NONE
from sandbox.request import Answer, Request

log = logging.getLogger(__name__)

_ATTEMPTS = 3  # attempts at a request whose worker dies
_SHUTDOWN_SECONDS = 10


class WorkerHandle(Protocol):
    """A worker process that is ready for requests."""

    layers: dict[str, str]

    def execute(self, request: Request[Answer]) -> Answer | Exception:
        """Send a request and wait for its answer. An error that the worker answers is returned, not raised.

        Raises EOFError or ConnectionError if the worker is gone, and ValueError or TypeError for a request that
        cannot be sent.
        """

    def stderr_tail(self) -> str:
        """Return what the worker wrote to stderr before it ended, for people to read."""

    def abort(self) -> None:
        """Make the worker abandon its request and end. May be called while another thread waits for its answer."""

    def join(self) -> None:
        """Wait until the worker has ended, and remove what it may have left behind."""


def _levels(isolation: str) -> tuple[str, ...]:
    return CONFINING_LEVELS if isolation == "full" else (*CONFINING_LEVELS, NONE)


class WorkerLost(Exception):
    """A worker ended while it started; starting another may help."""


# Starts a worker. The arguments: the level of isolation, and why there is no stronger one ("" if there is).
# Raises BackendUnavailable, among them CannotIsolate, or WorkerLost.
WorkerStarter = Callable[[str, str], WorkerHandle]


class Pool:
    """What the local and the docker backend have in common. Raises BackendUnavailable.

    start      starts one worker
    workers    number of workers
    isolation  "full" or "best-effort"; see Sandbox
    memory_mb  megabytes that the workers' machine has. No run gets more, and runs at the same time share them
    levels     the levels of isolation to try, in this order; empty: what `isolation` says
    """

    def __init__(
        self, start: WorkerStarter, *, workers: int, isolation: str, memory_mb: int, levels: Sequence[str] = ()
    ) -> None:
        self.workers = workers
        self._owner = os.getpid()
        slots = [_Slot(start) for _ in range(workers)]
        self._maxima = limit_bounds.LimitClamp(limit_bounds.machine_limits(memory_mb))
        self._admission = SlotAllocator(slots, memory_mb)
        self._end = weakref.finalize(self, _close, slots, self._admission, self._owner)
        try:
            self.layers: dict[str, str] = self._start_first(slots[-1], levels or _levels(isolation))
            for slot in slots:  # what the first worker has, all later ones must have
                slot.level, slot.refused = slots[-1].level, slots[-1].refused
        except BaseException:
            self.close()
            raise

    def _start_first(self, slot: "_Slot", levels: Iterable[str]) -> dict[str, str]:
        """Start the first worker at the first level that the machine does not refuse; return its layers.

        Raises BackendUnavailable.
        """
        refused: dict[str, str] = {}
        for slot.level in levels:
            slot.refused = "; ".join(f"{level}: {why}" for level, why in refused.items())
            try:
                layers = slot.start()
            except CannotIsolate as error:
                refused[slot.level] = str(error)
            else:
                if slot.level == NONE:
                    log.warning("submissions can read expected outputs: there is no wall (%s)", slot.refused)
                return layers
        tried = ". ".join(f"Tried {level}: {why}" for level, why in refused.items())
        raise BackendUnavailable(
            f"cannot isolate programs on this machine. {tried}. To judge without a wall, so that submissions can read"
            ' expected outputs, say isolation="best-effort" (--isolation best-effort)'
        )

    def execute(self, request: Request[Answer], cancellation: CancelToken | None = None) -> Answer:
        """Wait for a free worker and return its answer; see Backend.ask."""
        if os.getpid() != self._owner:
            raise SandboxError("this Sandbox belongs to the process that made it; make one in each process")
        if not self._end.alive:
            raise SandboxError("this Sandbox is closed")
        request = self._maxima.clamp_request(request)
        memory_mb = request.memory_mb
        slot = self._admission.acquire(memory_mb, cancellation)
        try:
            answer = slot.execute(request) if cancellation is None else slot.execute_cancellable(cancellation, request)
        finally:
            self._admission.release(slot, memory_mb)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def execute_many(self, requests: Iterable[Request[Answer]]) -> Iterator[tuple[int, Answer | Exception]]:
        """Yield the index and the answer of each request as they finish; see Backend.execute_many."""
        return map_results(self.execute, requests, threads=self.workers)

    def close(self) -> None:
        """End all workers; see Backend.close."""
        self._end()


class _Slot:
    """A place for one worker, which may have to be replaced."""

    def __init__(self, start: WorkerStarter) -> None:
        self.level = NAMESPACES
        self.refused = ""
        self._start = start
        self._stopped = self._abandoned = False
        self._worker: WorkerHandle | None = None

    def start(self) -> dict[str, str]:
        """Start the worker and return the layers that isolate its runs: name -> how. Raises BackendUnavailable."""
        words = ""
        for _ in range(_ATTEMPTS):
            self._check_open()
            try:
                self._worker = self._start(self.level, self.refused)
            except WorkerLost as error:
                words = str(error)
            else:
                return self._worker.layers
        raise BackendUnavailable(f"{_ATTEMPTS} sandbox workers ended while they started: {words}")

    def execute_cancellable(self, cancellation: CancelToken, request: Request[Answer]) -> Answer | Exception:
        """Do the same as ask, but raise Cancelled if the caller cancels. The slot then gets another worker."""
        try:
            with cancellation.on_cancel(self._abandon):
                return self.execute(request)
        except SandboxError:
            cancellation.raise_if_cancelled()
            raise
        finally:
            if self._abandoned:
                self._abandoned = False
                self.end()
                # The caller that cancelled waits for the new worker, not the next one that comes.
                with contextlib.suppress(SandboxError):
                    self.start()

    def _abandon(self) -> None:
        self._abandoned = True
        if (worker := self._worker) is not None:
            with contextlib.suppress(OSError):
                worker.abort()

    def execute(self, request: Request[Answer]) -> Answer | Exception:
        """Return the worker's answer, asking another worker if this one dies. Raises SandboxError."""
        words = ""
        repeated = False
        for _ in range(_ATTEMPTS):
            if self._worker is None:
                self.start()
            assert self._worker is not None
            try:
                self._check_open()
                answer = self._worker.execute(request)
                if isinstance(answer, ExecutionLost):  # a program may have damaged it
                    self.end()
                if isinstance(answer, KilledExternally) and not repeated:
                    repeated = True
                    continue
                return answer
            except (EOFError, ConnectionError):
                words = self._worker.stderr_tail()
                self.end()
            except BaseException:  # interrupted: the answer may still come, and would be taken for the next one
                self.end()
                raise
        raise ExecutionLost(f"{_ATTEMPTS} sandbox workers died with the same request: {words or 'killed'}")

    def stop(self) -> None:
        """Make the worker abandon its request and end. May be called while another thread waits for its answer."""
        self._stopped = True
        if (worker := self._worker) is not None:
            with contextlib.suppress(OSError):
                worker.abort()

    def _check_open(self) -> None:
        if self._stopped:
            raise SandboxError("this Sandbox is closed")
        if self._abandoned:
            raise SandboxError("the request was cancelled")

    def end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.join()


def _close(slots: list[_Slot], admission: SlotAllocator[_Slot], owner: int) -> None:
    """End all workers. Those that are at work give up, and the threads that wait for them get a SandboxError."""
    if os.getpid() != owner:
        return  # a fork of the owner that ends: the workers do not belong to it
    for slot in slots:
        slot.stop()
    idle: list[_Slot] = []
    while len(idle) < len(slots):
        try:
            idle.append(admission.acquire(0, timeout=_SHUTDOWN_SECONDS))
        except TimeoutError:
            break
        idle[-1].end()
    for slot in idle:
        admission.release(slot, 0)  # for threads that still wait for one: they are told
