"""Hands requests to worker processes (sandbox/jail/worker.py), each of which has one at a time, and replaces those that
die. The backend decides where they run: it says how to start one.

One thread reads the answers of all workers. Whoever frees a worker sends it the next request: the thread that brings an
answer, or a caller that finds a worker free. What blocks, such as starting a worker, has a thread of its own.
"""

import logging
import os
import queue
import select
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sandbox import limit_bounds
from sandbox.backends._workers import Worker, WorkerLost, WorkerStarter, abort, in_thread
from sandbox.concurrency.cancellation import CancelToken
from sandbox.errors import (
    BackendUnavailable,
    Cancelled,
    CannotIsolate,
    ExecutionLost,
    KilledExternally,
    SandboxError,
)
from sandbox.jail.worker_config import CONFINING_LEVELS, NAMESPACES, NONE
from sandbox.request import Answer, Request

log = logging.getLogger(__name__)

_ATTEMPTS = 3  # attempts at a request whose worker dies, and at starting a worker
_SHUTDOWN_SECONDS = 10
_PREFETCH = 2  # requests per worker that execute_many holds


@dataclass(eq=False, slots=True)
class _Job:
    """A request that somebody waits for.

    done       gets its answer, once
    n_lost     number of workers that died with it
    repeated   whether it was killed from outside before
    """

    request: Request[Any]
    memory_mb: int
    done: Callable[[Any], object]
    lane: "_Lane | None" = None
    n_lost: int = 0
    repeated: bool = False
    cancelled: bool = False


@dataclass(eq=False, slots=True)
class _Lane:
    """A place for one worker, and what that is doing."""

    worker: Worker | None = None
    job: _Job | None = None


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
        self._maxima = limit_bounds.LimitClamp(limit_bounds.machine_limits(memory_mb))
        self._lanes = _Lanes(start, workers, memory_mb)
        self._end = weakref.finalize(self, self._lanes.close)
        try:
            confining = CONFINING_LEVELS if isolation == "full" else (*CONFINING_LEVELS, NONE)
            self.layers: dict[str, str] = self._lanes.start_first(levels or confining)
        except BaseException:
            self.close()
            raise

    def execute(self, request: Request[Answer], cancellation: CancelToken | None = None) -> Answer:
        """Wait for a free worker and return its answer; see Backend.execute."""
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        if cancellation is not None:
            cancellation.raise_if_cancelled()
        job = self._submit(request, answers.put)
        try:
            if cancellation is None:
                answer = answers.get()
            else:
                with cancellation.on_cancel(partial(self._lanes.cancel, job)):
                    answer = answers.get()
        except BaseException:
            self._lanes.cancel(job)
            raise
        if isinstance(answer, Exception):
            if cancellation is not None and isinstance(answer, SandboxError):
                cancellation.raise_if_cancelled()
            raise answer
        result: Answer = answer
        return result

    def execute_many(self, requests: Iterable[Request[Answer]]) -> Iterator[tuple[int, Answer | Exception]]:
        """Yield the index and the answer of each request as they finish; see Backend.execute_many."""
        finished: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        jobs: dict[int, _Job] = {}

        def next_answer() -> tuple[int, Any]:
            index, answer = finished.get()
            del jobs[index]
            return index, answer

        try:
            for index, request in enumerate(requests):
                jobs[index] = self._submit(request, lambda answer, index=index: finished.put((index, answer)))  # type: ignore[misc]
                while len(jobs) >= _PREFETCH * self.workers or not finished.empty():
                    yield next_answer()
            while jobs:
                yield next_answer()
        finally:
            for job in jobs.values():
                self._lanes.withdraw(job)

    def close(self) -> None:
        """End all workers; see Backend.close."""
        self._end()

    def _submit(self, request: Request[Answer], done: Callable[[Any], object]) -> _Job:
        request = self._maxima.clamp_request(request)
        job = _Job(request, request.memory_mb, done)
        if os.getpid() != self._owner:
            done(SandboxError("this Sandbox belongs to the process that made it; make one in each process"))
        else:
            self._lanes.submit(job)
        return job


class _Lanes:
    """The workers and the queue before them.

    Only the first request of the queue may be admitted, so that one that needs much memory does not wait forever behind
    a stream of small ones. Nothing blocks while the lock is held. Whoever takes a worker out of a lane that has a job
    sees to that job; whoever gives a job to a lane without a worker starts one.
    """

    def __init__(self, start: WorkerStarter, workers: int, memory_mb: int) -> None:
        self._start = start
        self._level, self._refused = NAMESPACES, ""
        self._owner = os.getpid()
        self._memory_mb = memory_mb
        self._used_mb = 0
        self._all = [_Lane() for _ in range(workers)]
        self._free = list(self._all)  # the last one freed is the first one taken: its caches are warm
        self._waiting: deque[_Job] = deque()
        self._lock = threading.RLock()  # a garbage collection that closes us may come while it is held
        self._changed = threading.Condition(self._lock)
        self._closed = False
        self._n_helpers = 0  # threads that start and end workers
        self._by_fd: dict[int, _Lane] = {}
        self._epoll = select.epoll()
        self._wake = os.eventfd(0)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread = threading.Thread(target=self._read_answers, daemon=True, name="sandbox-answers")

    # Starting.

    def start_first(self, levels: Iterable[str]) -> dict[str, str]:
        """Start the first worker at the first level that the machine does not refuse; return its layers.

        Raises BackendUnavailable.
        """
        refused: dict[str, str] = {}
        for self._level in levels:
            self._refused = "; ".join(f"{level}: {why}" for level, why in refused.items())
            try:
                worker = self._start_worker()
            except CannotIsolate as error:
                refused[self._level] = str(error)
                continue
            if self._level == NONE:
                log.warning("submissions can read expected outputs: there is no wall (%s)", self._refused)
            self._thread.start()
            self._put(self._free[-1], worker)
            return worker.layers
        tried = ". ".join(f"Tried {level}: {why}" for level, why in refused.items())
        raise BackendUnavailable(
            f"cannot isolate programs on this machine. {tried}. To judge without a wall, so that submissions can read"
            ' expected outputs, say isolation="best-effort" (--isolation best-effort)'
        )

    def _start_worker(self) -> Worker:
        words = ""
        for _ in range(_ATTEMPTS):
            if self._closed:
                raise SandboxError("this Sandbox is closed")
            try:
                return self._start(self._level, self._refused)
            except WorkerLost as error:
                words = str(error)
        raise BackendUnavailable(f"{_ATTEMPTS} sandbox workers ended while they started: {words}")

    def _put(self, lane: _Lane, worker: Worker) -> bool:
        """Put a worker into a lane; return whether that is possible, because this is not closed."""
        with self._lock:
            if not self._closed:
                lane.worker = worker
                self._by_fd[worker.fileno()] = lane
                self._epoll.register(worker.fileno(), select.EPOLLIN)
            return not self._closed

    def _take(self, lane: _Lane, worker: Worker, then: Callable[[Worker, _Job | None], None]) -> None:
        """Take a worker out of its lane, if it is still there, and have a thread call `then` with it and its job."""
        with self._lock:
            if lane.worker is not worker:
                return
            lane.worker = None
            del self._by_fd[worker.fileno()]
            self._epoll.unregister(worker.fileno())
            self._help(then, worker, lane.job)

    def _help(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function that blocks in a thread of its own."""

        def run() -> None:
            try:
                function(*arguments)
            finally:
                with self._changed:
                    self._n_helpers -= 1
                    self._changed.notify_all()

        with self._lock:
            self._n_helpers += 1
        in_thread(run)

    # Requests.

    def submit(self, job: _Job) -> None:
        with self._lock:
            closed = self._closed
            if not closed:
                self._waiting.append(job)
            lanes = self._admit()
        if closed:
            job.done(SandboxError("this Sandbox is closed"))
        self._send_to(lanes)

    def withdraw(self, job: _Job) -> bool:
        """Take a request back if it is still waiting; return whether it was."""
        with self._lock:
            if job.lane is not None or job not in self._waiting:
                return False
            self._waiting.remove(job)
            lanes = self._admit()  # it may have been in the way of others
        self._send_to(lanes)
        return True

    def cancel(self, job: _Job) -> None:
        """Take a request back; if it has begun, end its worker, and give it Cancelled once there is another one."""
        if self.withdraw(job):
            job.done(Cancelled("the request was cancelled"))
            return
        with self._lock:
            if job.lane is not None:
                job.cancelled = True
                abort(job.lane.worker)

    def _admit(self) -> list[tuple[_Lane, Worker | None]]:
        lanes = []
        while self._waiting and self._free:
            needed_mb = self._waiting[0].memory_mb
            if self._used_mb and self._used_mb + needed_mb > self._memory_mb:
                break
            job, lane = self._waiting.popleft(), self._free.pop()
            self._used_mb += needed_mb
            lane.job, job.lane = job, lane
            lanes.append((lane, lane.worker))
        return lanes

    def _send_to(self, lanes: Iterable[tuple[_Lane, Worker | None]]) -> None:
        for lane, worker in lanes:
            if worker is None:
                self._help(self._start_and_send, lane)
            else:
                self._send(lane, worker)

    def _send(self, lane: _Lane, worker: Worker) -> None:
        assert lane.job is not None
        try:
            if not worker.begin(lane.job.request):
                with self._lock:
                    if lane.worker is worker:
                        self._epoll.modify(worker.fileno(), select.EPOLLIN | select.EPOLLOUT)
        except (EOFError, OSError):
            self._lose(lane, worker)
        except Exception as error:
            self._finish(lane, error)
        except BaseException:  # interrupted: it may have got half of the request
            self._lose(lane, worker)
            raise

    def _start_and_send(self, lane: _Lane) -> None:
        job = lane.job
        assert job is not None
        try:
            worker = self._start_worker()
        except Exception as error:
            self._finish(lane, Cancelled("the request was cancelled") if job.cancelled else error)
            return
        if not self._put(lane, worker):
            worker.join()
            self._finish(lane, SandboxError("this Sandbox is closed"))
        elif job.cancelled:
            self._finish(lane, Cancelled("the request was cancelled"))
        else:
            self._send(lane, worker)

    def _finish(self, lane: _Lane, answer: Any) -> None:
        self._free_lane(lane).done(answer)

    def _free_lane(self, lane: _Lane) -> _Job:
        """Send the next request to a lane; return the one that it had."""
        with self._lock:
            job = lane.job
            assert job is not None
            lane.job = job.lane = None
            self._used_mb -= job.memory_mb
            self._free.append(lane)
            lanes = self._admit()
            if self._closed:
                self._changed.notify_all()
        self._send_to(lanes)
        return job

    # Answers.

    def _read_answers(self) -> None:
        while True:
            # Answers are passed on last: each wakes a thread that wants the interpreter's lock.
            finished: list[tuple[_Job, Any]] = []
            for descriptor, events in self._epoll.poll():
                if descriptor == self._wake:
                    return
                lane = self._by_fd.get(descriptor)
                if lane is not None and (worker := lane.worker) is not None:
                    self._read(lane, worker, events, finished)
            for job, answer in finished:
                job.done(answer)

    def _read(self, lane: _Lane, worker: Worker, events: int, finished: list[tuple[_Job, Any]]) -> None:
        try:
            if events & select.EPOLLOUT and worker.flush():
                self._epoll.modify(worker.fileno(), select.EPOLLIN)
            if not events & ~select.EPOLLOUT:
                return
            if lane.job is None:
                raise EOFError("it ended, or says something without being asked")
            answer = worker.receive(lane.job.request)
        except Exception:  # whatever it is, this thread goes on
            self._lose(lane, worker)
            return
        if isinstance(answer, ExecutionLost):  # a program may have damaged the worker
            self._take(lane, worker, partial(self._replace_damaged, lane, answer))
        elif answer is not None:
            finished.append((self._free_lane(lane), answer))

    def _replace_damaged(self, lane: _Lane, answer: ExecutionLost, worker: Worker, job: _Job | None) -> None:
        worker.join()
        assert job is not None
        if isinstance(answer, KilledExternally) and not job.repeated and not job.cancelled:
            job.repeated = True
            self._start_and_send(lane)
        else:
            self._finish(lane, answer)

    def _lose(self, lane: _Lane, worker: Worker) -> None:
        self._take(lane, worker, partial(self._recover, lane))

    def _recover(self, lane: _Lane, worker: Worker, job: _Job | None) -> None:
        """Join a worker that has died, and have another one carry out its request."""
        words = worker.stderr_tail()
        worker.join()
        if job is None:
            return
        job.n_lost += 1
        if self._closed:
            self._finish(lane, SandboxError("this Sandbox is closed"))
        elif job.n_lost < _ATTEMPTS or job.cancelled:
            self._start_and_send(lane)
        else:
            message = f"{_ATTEMPTS} sandbox workers died with the same request: {words or 'killed'}"
            self._finish(lane, ExecutionLost(message))

    # The end.

    def _is_idle(self) -> bool:
        return not self._n_helpers and not any(lane.job for lane in self._all)

    def close(self) -> None:
        """End all workers. Those that are at work give up, and whoever waits for them gets a SandboxError."""
        if os.getpid() != self._owner:
            return  # a fork of the owner that ends: the workers do not belong to it
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
            for lane in self._all:
                abort(lane.worker)
        for job in waiting:
            job.done(SandboxError("this Sandbox is closed"))
        with self._changed:
            self._changed.wait_for(self._is_idle, _SHUTDOWN_SECONDS)
            left = [lane.worker for lane in self._all if lane.worker is not None]
            for lane in self._all:
                lane.worker = None
        for worker in left:
            worker.join()
        os.eventfd_write(self._wake, 1)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_SHUTDOWN_SECONDS)
        self._epoll.close()
        os.close(self._wake)
