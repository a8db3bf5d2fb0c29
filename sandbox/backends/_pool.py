"""A pool of worker processes (sandbox/jail/worker.py), each with one request at a time; those that die are replaced.

Where they run is the backend's affair: it says how to start one.
"""

import contextlib
import os
import queue
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from sandbox.errors import BackendUnavailable, ExecutionLost, SandboxError
from sandbox.streaming import completed

_ATTEMPTS = 3  # at a request whose worker dies
_GOODBYE_SECONDS = 10


class Worker(Protocol):
    """A worker that is ready. send and receive raise EOFError or ConnectionError when it is gone."""

    layers: dict[str, str]

    def send(self, message: Any) -> None: ...

    def receive(self) -> Any: ...

    def last_words(self) -> str:
        """What it said before it went; for people."""

    def hang_up(self) -> None:
        """Make it give up what it does and go. May be called while another thread waits for its answer."""

    def end(self) -> None:
        """Wait until it is gone, and remove what it might have left."""


class WorkerLost(Exception):
    """A worker ended while it started; starting another may help."""


Start = Callable[[bool], Worker]  # told whether isolation must be full; raises BackendUnavailable or WorkerLost


class Pool:
    """What the local and the docker backend have in common. Raises BackendUnavailable."""

    def __init__(self, start: Start, *, workers: int, isolation: str) -> None:
        self.workers = workers
        self._owner = os.getpid()
        slots = [_Slot(start) for _ in range(workers)]
        self._free: queue.LifoQueue[_Slot] = queue.LifoQueue()
        for slot in slots:
            self._free.put(slot)
        self._end = weakref.finalize(self, _close, slots, self._free, self._owner)
        try:
            self.layers: dict[str, str] = slots[-1].start(full_isolation=isolation == "full")
            isolated = not self.layers["processes"].startswith("none")
            for slot in slots:  # what the first worker has, all later ones must have
                slot.full_isolation = isolated
        except BaseException:
            self.close()
            raise

    def ask(self, *request: Any) -> Any:
        """Have one request answered by a free worker, waiting for one if need be. For any number of threads.

        Raises SandboxError if the sandbox failed, and what the request's own fault is (ValueError, TypeError).
        """
        if os.getpid() != self._owner:
            raise SandboxError("this Sandbox belongs to the process that made it; make one in each process")
        if not self._end.alive:
            raise SandboxError("this Sandbox is closed")
        slot = self._free.get()
        try:
            answer = slot.ask(request)
        finally:
            self._free.put(slot)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask_many(self, requests: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """(index, answer or exception) of each request, as they finish."""
        for index, future in completed(lambda request: self.ask(*request), requests, threads=self.workers):
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield index, error or future.result()

    def close(self) -> None:
        self._end()


class _Slot:
    """A place for one worker, which may have to be replaced."""

    def __init__(self, start: Start) -> None:
        self.full_isolation = True
        self._start = start
        self._stopped = False
        self._worker: Worker | None = None

    def start(self, *, full_isolation: bool) -> dict[str, str]:
        """Start the worker; returns what isolates its runs, layer by layer. Raises BackendUnavailable."""
        words = ""
        for _ in range(_ATTEMPTS):
            self._check_open()
            try:
                self._worker = self._start(full_isolation)
            except WorkerLost as error:
                words = str(error)
            else:
                return self._worker.layers
        raise BackendUnavailable(f"{_ATTEMPTS} sandbox workers ended while they started: {words}")

    def ask(self, request: tuple[Any, ...]) -> Any:
        words = ""
        for _ in range(_ATTEMPTS):
            if self._worker is None:
                self.start(full_isolation=self.full_isolation)
            assert self._worker is not None
            try:
                self._check_open()
                self._worker.send(request)
                answer = self._worker.receive()
                if isinstance(answer, ExecutionLost):  # a program may have damaged it
                    self.end()
                return answer
            except (EOFError, ConnectionError):
                words = self._worker.last_words()
                self.end()
            except BaseException:  # interrupted: an answer may still come, and would answer the next question
                self.end()
                raise
        raise ExecutionLost(f"{_ATTEMPTS} sandbox workers died of the same request: {words or 'killed'}")

    def stop(self) -> None:
        """Make the worker give up what it does and end. May be called while another thread waits for its answer."""
        self._stopped = True
        if (worker := self._worker) is not None:
            with contextlib.suppress(OSError):
                worker.hang_up()

    def _check_open(self) -> None:
        if self._stopped:
            raise SandboxError("this Sandbox is closed")

    def end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()


def _close(slots: list[_Slot], free: "queue.LifoQueue[_Slot]", owner: int) -> None:
    """End all workers. Those that are at work give up, and the threads that wait for them get a SandboxError."""
    if os.getpid() != owner:
        return  # a fork of the owner that ends: the workers are not its
    for slot in slots:
        slot.stop()
    idle: list[_Slot] = []
    while len(idle) < len(slots):
        try:
            idle.append(free.get(timeout=_GOODBYE_SECONDS))
        except queue.Empty:
            break
        idle[-1].end()
    for slot in idle:
        free.put(slot)  # for threads that still wait for one: they are told
