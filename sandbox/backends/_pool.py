"""A pool of worker processes (sandbox/jail/worker.py), each with one request at a time; those that die are replaced.

Where they run is the backend's affair: it says how to start one.
"""

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from sandbox import maxima
from sandbox.backends._admission import Admission
from sandbox.cases import INTERACTIVE
from sandbox.concurrency.cancellation import Cancellation
from sandbox.concurrency.completed import completed
from sandbox.errors import BackendUnavailable, ExecutionLost, KilledFromOutside, SandboxError
from sandbox.referee import LIMITS as REFEREE_LIMITS

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


# Told whether isolation must be full, and why there are no namespaces to be had ("": there are); raises
# BackendUnavailable or WorkerLost.
Start = Callable[[bool, str], Worker]


class Pool:
    """What the local and the docker backend have in common. Raises BackendUnavailable.

    memory_mb: of the machine that the workers are on. No run gets more, and runs at a time have no more together.
    """

    def __init__(self, start: Start, *, workers: int, isolation: str, memory_mb: int) -> None:
        self.workers = workers
        self._owner = os.getpid()
        slots = [_Slot(start) for _ in range(workers)]
        self._maxima = maxima.Maxima(maxima.of_machine(memory_mb))
        self._admission = Admission(slots, memory_mb)
        self._end = weakref.finalize(self, _close, slots, self._admission, self._owner)
        try:
            self.layers: dict[str, str] = self._start_first(slots[-1], full_isolation=isolation == "full")
            for slot in slots:  # what the first worker has, all later ones must have
                slot.full_isolation, slot.no_namespaces = slots[-1].full_isolation, slots[-1].no_namespaces
        except BaseException:
            self.close()
            raise

    def _start_first(self, slot: "_Slot", *, full_isolation: bool) -> dict[str, str]:
        """What isolates runs; as much as there is, and no less than was asked for. Raises BackendUnavailable."""
        slot.full_isolation = full_isolation
        try:
            return slot.start()
        except BackendUnavailable as error:
            if full_isolation:
                raise
            slot.no_namespaces = str(error)
            return slot.start()

    def ask(self, *request: Any, cancellation: Cancellation | None = None) -> Any:
        """Have one request answered by a free worker, waiting for one if need be. For any number of threads.

        Raises SandboxError if the sandbox failed, Cancelled if the caller has cancelled, and what the request's own
        fault is (ValueError, TypeError).
        """
        if os.getpid() != self._owner:
            raise SandboxError("this Sandbox belongs to the process that made it; make one in each process")
        if not self._end.alive:
            raise SandboxError("this Sandbox is closed")
        request = self._maxima.bounded(request)
        memory_mb = _memory_mb(request)
        slot = self._admission.enter(memory_mb, cancellation)
        try:
            answer = slot.ask(request) if cancellation is None else slot.ask_unless(cancellation, request)
        finally:
            self._admission.leave(slot, memory_mb)
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


def _memory_mb(request: tuple[Any, ...]) -> int:
    """What the programs of a request may use at a time: one, or two that talk to each other."""
    needed = maxima.limits_of(request).memory_mb
    if request[0] == "judge" and request[2].checker == INTERACTIVE:
        needed += REFEREE_LIMITS.memory_mb
    return needed


class _Slot:
    """A place for one worker, which may have to be replaced."""

    def __init__(self, start: Start) -> None:
        self.full_isolation = True
        self.no_namespaces = ""
        self._start = start
        self._stopped = self._abandoned = False
        self._worker: Worker | None = None

    def start(self) -> dict[str, str]:
        """Start the worker; returns what isolates its runs, layer by layer. Raises BackendUnavailable."""
        words = ""
        for _ in range(_ATTEMPTS):
            self._check_open()
            try:
                self._worker = self._start(self.full_isolation, self.no_namespaces)
            except WorkerLost as error:
                words = str(error)
            else:
                return self._worker.layers
        raise BackendUnavailable(f"{_ATTEMPTS} sandbox workers ended while they started: {words}")

    def ask_unless(self, cancellation: Cancellation, request: tuple[Any, ...]) -> Any:
        """As ask, but raises Cancelled when the caller cancels. Then this slot has another worker."""
        try:
            with cancellation.calling(self._abandon):
                return self.ask(request)
        except SandboxError:
            cancellation.check()
            raise
        finally:
            if self._abandoned:
                self._abandoned = False
                self.end()
                # The one who went pays for the new worker, not the next one who comes.
                with contextlib.suppress(SandboxError):
                    self.start()

    def _abandon(self) -> None:
        self._abandoned = True
        if (worker := self._worker) is not None:
            with contextlib.suppress(OSError):
                worker.hang_up()

    def ask(self, request: tuple[Any, ...]) -> Any:
        words = ""
        repeated = False
        for _ in range(_ATTEMPTS):
            if self._worker is None:
                self.start()
            assert self._worker is not None
            try:
                self._check_open()
                self._worker.send(request)
                answer = self._worker.receive()
                if isinstance(answer, ExecutionLost):  # a program may have damaged it
                    self.end()
                if isinstance(answer, KilledFromOutside) and not repeated:
                    repeated = True
                    continue
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
        if self._abandoned:
            raise SandboxError("the caller took its request back")

    def end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()


def _close(slots: list[_Slot], admission: Admission[_Slot], owner: int) -> None:
    """End all workers. Those that are at work give up, and the threads that wait for them get a SandboxError."""
    if os.getpid() != owner:
        return  # a fork of the owner that ends: the workers are not its
    for slot in slots:
        slot.stop()
    idle: list[_Slot] = []
    while len(idle) < len(slots):
        try:
            idle.append(admission.enter(0, timeout=_GOODBYE_SECONDS))
        except TimeoutError:
            break
        idle[-1].end()
    for slot in idle:
        admission.leave(slot, 0)  # for threads that still wait for one: they are told
