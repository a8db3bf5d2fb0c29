"""The request queue, and the lanes that execute the requests.

A lane is the connection to a worker process, to a container, or to the workers of a cluster node. It executes as many
concurrent requests as it has slots, and reports their responses, or its own loss, to the dispatcher. The dispatcher
orders requests, bounds their memory, retries and cancels them, and replaces lost lanes.

A thread that submits a request, or delivers a response, also sends the next requests to free slots. Blocking calls,
such as the start of a worker, run in their own thread.
"""

import os
import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from sandbox.concurrency.cancellation import CancelToken
from sandbox.errors import BackendUnavailable, Cancelled, ExecutionLost, KilledExternally, SandboxError
from sandbox.request import Request, Response

MAX_ATTEMPTS = 3  # maximum number of lanes lost with one request, and of attempts to start a lane
SHUTDOWN_SECONDS = 10
_PREFETCH = 3  # maximum number of unfinished requests per worker in execute_many


class LaneLost(Exception):
    """A lane has exited; a retry on another one may succeed."""


class BackendLost(SandboxError):
    """The backend is lost, permanently or for minutes: no request can be executed."""


@dataclass(eq=False, slots=True)
class Job:
    """A request in the queue or in a lane.

    memory_mb    the memory that it takes from the dispatcher's budget
    on_response  called once, with the response or the exception to raise
    lane         its lane; None while it is queued
    failures     (name of the lane, class of the error) of each failed attempt
    error        the error for which the dispatcher is ending the lane; None if there is none
    cancelled    whether its caller has cancelled it
    """

    request: Request[Any]
    memory_mb: int
    on_response: Callable[[Any], object]
    lane: "Lane | None" = None
    failures: tuple[tuple[str, type[Exception]], ...] = ()
    error: SandboxError | None = None
    cancelled: bool = False


class Lane(ABC):
    """The connection to one or several workers. Only `join` may block.

    layers     the isolation layers; see Backend.layers
    workers    number of workers
    slots      maximum number of requests in progress, waiting ones included
    name       name of the lane's machine. A failed request is retried on a lane with another name, if there is one
    """

    max_failures = 1  # consecutive ExecutionLost responses after which the dispatcher ends the lane
    loss_message = "{} sandbox workers exited while running the same request: {}"

    layers: dict[str, str]
    dispatcher: "RequestDispatcher"

    def __init__(self, *, workers: int = 1, slots: int = 1, name: str = "") -> None:
        self.workers, self.slots, self.name = workers, slots, name
        # Set by the dispatcher: the requests in progress, and the number of consecutive ExecutionLost responses.
        self.jobs: dict[Job, None] = {}
        self.n_failures = 0

    @abstractmethod
    def open(self) -> None:
        """Start calling `dispatcher.deliver` for responses, and `dispatcher.drop_lane` if the lane is lost."""

    @abstractmethod
    def send(self, jobs: Sequence[Job]) -> None:
        """Send requests.

        Raises LaneLost if the workers exited before they received a request, and EOFError or OSError if they exit
        while they receive one. Raises another Exception only for a single request, if it cannot be encoded.
        """

    @abstractmethod
    def cancel(self, job: Job) -> None:
        """Abort the request, which then fails with an unspecified error. The lane may be lost."""

    @abstractmethod
    def join(self, reason: str) -> str:
        """Shut down the workers, wait until they have exited, and free the lane's resources.

        Returns the workers' last error message or, if there is none, `reason`.
        """

    def get_max_attempts(self, error: Exception) -> int:
        """Return the maximum number of attempts of a request that fails with this error."""
        return {LaneLost: MAX_ATTEMPTS, KilledExternally: 2}.get(type(error), 1)


class RequestDispatcher:
    """The request queue and its lanes.

    start      blocking function that starts a lane. Raises BackendUnavailable, or LaneLost if a retry may help
    max_lanes  maximum number of lanes, which `start` starts on demand; 0 if only `attach` adds lanes
    memory_mb  memory budget of all requests in progress together

    Requests start in order, so that small requests cannot starve one that needs much memory. No method blocks while it
    holds the lock.
    """

    def __init__(self, start: Callable[[], Lane] | None = None, *, max_lanes: int = 0, memory_mb: float = inf) -> None:
        self._start = start
        self._max_lanes, self._memory_mb, self._used_mb = max_lanes, memory_mb, 0
        self._owner = os.getpid()
        self._lanes: set[Lane] = set()
        self._free: dict[Lane, None] = {}  # lanes with a free slot, the most recently used last, with warm caches
        self._waiting: deque[Job] = deque()
        self._lock = threading.RLock()  # reentrant, since a finalizer may call close() in a thread that holds it
        self._changed = threading.Condition(self._lock)
        self._n_helpers = 0  # running threads of run_in_thread
        self.stop_error: SandboxError | None = None  # the error for all requests after stop(); None before

    @property
    def n_workers(self) -> int:
        """The number of workers, started or not."""
        with self._lock:
            return self._max_lanes or sum(lane.workers for lane in self._lanes)

    # Requests.

    def submit(self, request: Request[Any], on_response: Callable[[Any], object]) -> Job:
        """Queue a request. Never raises.

        on_response   called once, with the response or the exception to raise
        """
        job = Job(request, request.memory_mb, on_response)
        if os.getpid() != self._owner:
            on_response(SandboxError("this Sandbox belongs to the process that made it; make one in each process"))
            return job
        with self._lock:
            stop_error = self.stop_error
            if stop_error is None:
                self._waiting.append(job)
            batches = self._admit()
        self._send_and_deliver(batches, [(job, copy(stop_error))] if stop_error else ())
        return job

    def withdraw(self, job: Job) -> bool:
        """Remove a request from the queue; return whether it was queued."""
        with self._lock:
            if job.lane is not None or job not in self._waiting:
                return False
            self._waiting.remove(job)
            batches = self._admit()  # the next request may need less memory
        self._send_and_deliver(batches)
        return True

    def cancel(self, job: Job) -> None:
        """Cancel a request, and abort it if it is in progress. `on_response` gets Cancelled once the worker is free."""
        if self.withdraw(job):
            job.on_response(Cancelled("the request was cancelled"))
            return
        with self._lock:
            job.cancelled = True
            if job.lane is not None:
                job.lane.cancel(job)

    def deliver(self, responses: Iterable[tuple[Lane, Job, Any]]) -> None:
        """Pass responses, each a result or an exception to raise, to the `on_response` of their requests."""
        finished: list[tuple[Job, Any]] = []
        with self._lock:
            for lane, job, response in responses:
                if job.lane is not lane:
                    continue  # the lane was lost, and the request requeued or failed
                lane.n_failures = lane.n_failures + 1 if isinstance(response, ExecutionLost) else 0
                if lane.n_failures >= lane.max_failures:
                    job.error = response
                    self.drop_lane(lane, f"it failed {lane.n_failures} times in a row")
                elif isinstance(response, SandboxError):
                    self._fail(lane, job, response, finished)
                else:
                    self._release(lane, job)
                    finished.append((job, response))
            batches = self._admit()
        self._send_and_deliver(batches, finished)

    def _fail(self, lane: Lane, job: Job, error: Exception, finished: list[tuple[Job, Any]]) -> None:
        """Requeue a request for another lane, or fail it after `get_max_attempts(error)` attempts."""
        self._release(lane, job)
        job.failures += ((lane.name, type(error)),)
        if job.cancelled:
            error = Cancelled("the request was cancelled")
        elif self.stop_error:
            error = copy(self.stop_error)
        elif sum(kind is type(error) for _, kind in job.failures) < lane.get_max_attempts(error):
            self._waiting.appendleft(job)
            return
        elif isinstance(error, LaneLost):
            error = ExecutionLost(lane.loss_message.format(MAX_ATTEMPTS, error))
        finished.append((job, error))

    def _admit(self) -> dict[Lane, list[Job]]:
        """Assign queued requests to lanes with free slots; return the requests to send."""
        batches: dict[Lane, list[Job]] = {}
        skipped: list[Job] = []
        while self._waiting and self._free and self._fits(job := self._waiting[0]):
            lane = self._choose_lane(job)
            if lane is None and not job.failures:
                break
            self._waiting.popleft()
            if lane is None:
                skipped.append(job)
                continue
            self._used_mb += job.memory_mb
            job.lane = lane
            lane.jobs[job] = None
            if len(lane.jobs) == lane.slots:
                del self._free[lane]
            batches.setdefault(lane, []).append(job)
        if skipped:
            self._waiting.extendleft(reversed(skipped))
        if self._waiting and not self._free:
            n_possible = min(len(self._waiting), self._max_lanes - len(self._lanes))
            if self._n_helpers < n_possible and self._fits(self._waiting[0]):
                self.run_in_thread(self._start_lane)
        return batches

    def _fits(self, job: Job) -> bool:
        return not self._used_mb or self._used_mb + job.memory_mb <= self._memory_mb

    def _choose_lane(self, job: Job) -> Lane | None:
        """Return the most recently used lane if it is idle, or else the least loaded one; None to wait.

        A request returns to a lane on which it failed only if there is no other. While few requests are queued, they
        wait for an idle worker.
        """
        last = next(reversed(self._free))
        if not last.jobs and not job.failures:
            return last
        tried = {name for name, _ in job.failures}
        if tried.issuperset(lane.name for lane in self._lanes):
            tried = set()
        untried = (lane for lane in self._free if lane.name not in tried)
        lane = min(untried, key=lambda lane: len(lane.jobs) / lane.workers, default=None)
        is_behind = lane is not None and len(lane.jobs) >= lane.workers
        return None if is_behind and len(self._waiting) <= self.n_workers else lane

    def _release(self, lane: Lane, job: Job) -> None:
        del lane.jobs[job]
        job.lane = None
        self._used_mb -= job.memory_mb
        if lane in self._lanes:
            self._free[lane] = None

    def _send_and_deliver(self, batches: Mapping[Lane, list[Job]], finished: Iterable[tuple[Job, Any]] = ()) -> None:
        """Send requests, then deliver responses: delivery wakes threads, which compete for the GIL."""
        for lane, jobs in batches.items():
            try:
                lane.send(jobs)
            except LaneLost as error:
                self._requeue_unsent(lane, jobs, str(error))
            except (EOFError, OSError) as error:
                self.drop_lane(lane, str(error))
            except Exception as error:
                self.deliver([(lane, jobs[0], error)])
            except BaseException:  # KeyboardInterrupt, for example; the lane may have received part of a request
                self.drop_lane(lane, "interrupted")
                raise
        for job, response in finished:
            job.on_response(response)

    def _requeue_unsent(self, lane: Lane, jobs: Sequence[Job], reason: str) -> None:
        """Drop a lane that exited before it received these requests; requeue them, without counting an attempt."""
        with self._lock:
            self.drop_lane(lane, reason)
            for job in reversed(jobs):
                if job.lane is lane:
                    self._release(lane, job)
                    self._waiting.appendleft(job)
            batches = self._admit()
        self._send_and_deliver(batches)

    # Lanes.

    def attach(self, lane: Lane) -> None:
        """Add a lane; end it if the dispatcher has stopped."""
        lane.dispatcher = self
        with self._lock:
            stop_error = self.stop_error
            if stop_error is None:
                self._lanes.add(lane)
                self._free[lane] = None
                lane.open()
            batches = self._admit()
        if stop_error:
            lane.join(str(stop_error))
        self._send_and_deliver(batches)

    def start_lane(self) -> Lane:
        """Start and attach a lane. Raises BackendUnavailable."""
        assert self._start is not None
        message = ""
        for _ in range(MAX_ATTEMPTS):
            if self.stop_error:
                raise copy(self.stop_error)
            try:
                lane = self._start()
            except LaneLost as error:
                message = str(error)
            else:
                self.attach(lane)
                return lane
        raise BackendUnavailable(f"{MAX_ATTEMPTS} sandbox workers exited during their start: {message}")

    def _start_lane(self) -> list[tuple[Job, Any]]:
        try:
            self.start_lane()
        except Exception as error:
            with self._lock:
                return [(self._waiting.popleft(), error)] if self._waiting else []
        return []

    def drop_lane(self, lane: Lane, reason: str) -> None:
        """Drop a lane, and retry its requests once it has exited."""
        with self._lock:
            if lane in self._lanes:
                self._lanes.remove(lane)
                self._free.pop(lane, None)
                self.run_in_thread(self._end_lane, lane, reason)

    def _end_lane(self, lane: Lane, reason: str) -> list[tuple[Job, Any]]:
        reason = lane.join(reason)
        finished: list[tuple[Job, Any]] = []
        with self._lock:
            for job in reversed(list(lane.jobs)):
                error, job.error = job.error, None
                self._fail(lane, job, error or LaneLost(reason), finished)
        return finished

    def run_in_thread(self, function: Callable[..., Iterable[tuple[Job, Any]] | None], *arguments: Any) -> None:
        """Call a function in a new thread, then deliver the responses that it returns."""

        def run() -> None:
            finished: Iterable[tuple[Job, Any]] = ()
            try:
                finished = function(*arguments) or ()
            finally:
                with self._changed:
                    self._n_helpers -= 1
                    batches = self._admit()
                    self._changed.notify_all()
                self._send_and_deliver(batches, finished)

        with self._lock:
            self._n_helpers += 1
        threading.Thread(target=run, daemon=True, name="sandbox-helper").start()

    # Shutdown.

    def fail_waiting(self, error: SandboxError) -> None:
        """Fail all waiting requests with the error."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for job in waiting:
            job.on_response(copy(error))

    def stop(self, error: SandboxError | None = None) -> None:
        """Fail all queued requests, and start to shut down all lanes.

        error   exception for queued and later requests; None if the Sandbox was closed
        """
        with self._lock:
            self.stop_error = self.stop_error or error or SandboxError("this Sandbox is closed")
            for lane in list(self._lanes):
                self.drop_lane(lane, str(self.stop_error))
        self.fail_waiting(self.stop_error)

    def close(self) -> None:
        """Stop, and wait until all lanes have ended. Does nothing in a forked process."""
        if os.getpid() != self._owner:
            return
        self.stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._n_helpers, SHUTDOWN_SECONDS)


class QueuedBackend:
    """A backend that executes requests by a dispatcher; see _protocol.Backend."""

    def __init__(self, dispatcher: RequestDispatcher) -> None:
        self.dispatcher = dispatcher

    @property
    def workers(self) -> int:
        return self.dispatcher.n_workers

    def submit(self, request: Request[Response], on_response: Callable[[Any], object]) -> Callable[[], None]:
        return partial(self.dispatcher.cancel, self._submit(request, on_response))

    def _submit(self, request: Request[Any], on_response: Callable[[Any], object]) -> Job:
        return self.dispatcher.submit(request, on_response)

    def execute(self, request: Request[Response], cancellation: CancelToken | None = None) -> Response:
        responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        if cancellation is not None:
            cancellation.raise_if_cancelled()
        job = self._submit(request, responses.put)
        try:
            if cancellation is None:
                response = responses.get()
            else:
                with cancellation.call_on_cancel(partial(self.dispatcher.cancel, job)):
                    response = responses.get()
        except BaseException:
            self.dispatcher.cancel(job)
            raise
        if isinstance(response, Exception):
            if cancellation is not None and isinstance(response, SandboxError):
                cancellation.raise_if_cancelled()
            raise response
        result: Response = response
        return result

    def execute_many(self, requests: Iterable[Request[Response]]) -> Iterator[tuple[int, Response | Exception]]:
        finished: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        jobs: dict[int, Job] = {}

        def take_next_response() -> tuple[int, Any]:
            index, response = finished.get()
            del jobs[index]
            if isinstance(response, BackendLost):
                raise response
            return index, response

        try:
            for index, request in enumerate(requests):
                jobs[index] = self._submit(request, lambda response, index=index: finished.put((index, response)))  # type: ignore[misc]
                while len(jobs) >= max(1, _PREFETCH * self.workers) or not finished.empty():
                    yield take_next_response()
            while jobs:
                yield take_next_response()
        finally:
            for job in jobs.values():
                self.dispatcher.withdraw(job)
