"""The Sandbox and its queue, shared by all front ends, in one event loop.

A front end numbers its requests, and calls the methods of its Session over a Link. The dispatcher calls the front end's
method `respond` once for each number, unless the front end cancels the request first.
"""

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from sandbox.box import Sandbox
from sandbox.errors import Cancelled, SandboxError, get_error_code
from sandbox.request import Request
from sandbox.service.fair_queue import FairQueue, QueueEntry
from sandbox.service.link import Link
from sandbox.service.prometheus import ServiceMetrics
from sandbox.service.service_errors import (
    MalformedRequest,
    QueueTimeout,
    SandboxFailed,
    ServiceError,
    ServiceShutdown,
    TooManyRequests,
)
from sandbox.service.settings import ServiceSettings

log = logging.getLogger(__name__)

_PREFETCH = 2  # maximum number of requests at the Sandbox in excess of its workers, so that no worker is idle


@dataclass(eq=False, slots=True)
class _Job(QueueEntry):
    """A request of a front end."""

    session: "Session" = field(kw_only=True)
    number: int = field(kw_only=True)
    request: Request[Any] = field(kw_only=True)
    arrival_time: float = field(default_factory=time.monotonic)
    deadline: asyncio.TimerHandle | None = None
    cancel: Callable[[], None] | None = None

    def respond(self, response: Any) -> None:
        self.cancel_deadline()
        if self.session.jobs.pop(self.number, None) is not None:
            self.session.link.call("respond", self.number, response)

    def cancel_deadline(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()


class ServiceDispatcher:
    """The scheduler that submits the requests of all front ends to the Sandbox, and records metrics."""

    def __init__(self, box: Sandbox, settings: ServiceSettings) -> None:
        self.box = box
        self.queue = FairQueue[_Job](box.workers + min(_PREFETCH, box.workers), settings.max_queued_requests)
        self.metrics = ServiceMetrics(self.queue, box.workers)
        self.byte_budget = ByteBudget(settings.max_buffered_bytes)
        self.loop = asyncio.get_running_loop()
        self._responses: deque[tuple[_Job, Any]] = deque()  # threads of the Sandbox append, the event loop pops
        self._is_scheduled = False

    def admit(self, client: str) -> None:
        """Admit a request of this client, and reject the request evicted for it. Raises as FairQueue.admit does."""
        if (job := self.queue.admit(client)) is not None:
            job.respond(TooManyRequests(self.queue.estimate_retry_seconds()))

    def execute(self, job: _Job, timeout_seconds: float | None) -> None:
        """Start or queue a request. Raises as `admit` does.

        timeout_seconds   maximum time in the queue; None for no limit
        """
        if not job.is_admitted:
            self.admit(job.client)
        if self.queue.add(job):
            self._start(job)
        elif timeout_seconds is not None:
            job.deadline = self.loop.call_later(timeout_seconds, self._time_out, job)

    def cancel(self, job: _Job) -> None:
        """Kill the program of a request, or remove it from the queue."""
        job.cancel_deadline()
        if not job.start_time:
            self.queue.remove(job)
        elif job.cancel is not None:
            job.cancel()

    def _time_out(self, job: _Job) -> None:
        self.queue.remove(job)
        job.respond(QueueTimeout(self.queue.estimate_retry_seconds()))

    def _start(self, job: _Job) -> None:
        job.cancel_deadline()
        self.metrics.queue_seconds.observe(job.start_time - job.arrival_time)
        try:
            job.cancel = self.box.submit(job.request, partial(self._take_response, job))
        except Exception as error:
            self._take_response(job, error)

    def _take_response(self, job: _Job, response: Any) -> None:
        """Queue a response for the event loop. Thread-safe."""
        self._responses.append((job, response))
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon_threadsafe(self._deliver_responses)

    def _deliver_responses(self) -> None:
        self._is_scheduled = False
        while self._responses:
            job, response = self._responses.popleft()
            seconds = time.monotonic() - job.start_time
            if (following := self.queue.finish(job)) is not None:
                self._start(following)
            job.respond(self._to_response(response, seconds))

    def _to_response(self, response: Any, seconds: float) -> Any:
        """Record a response in the metrics; return it or, if it is an exception, the ServiceError for the client."""
        match response:
            case Cancelled():
                self.metrics.cancelled.inc()
                return (
                    ServiceShutdown()
                )  # reaches the client only after abort_requests(); otherwise it has disconnected
            case SandboxError() if self.queue.draining:  # abort_requests() has closed the Sandbox
                return ServiceShutdown()
            case SandboxError():
                self.metrics.failures.inc()
                log.warning("the sandbox failed: %s", response)
                return SandboxFailed(str(response), error=get_error_code(type(response)))
            case ValueError() | TypeError() | KeyError() | OverflowError() | RecursionError():
                return MalformedRequest(str(response), error=get_error_code(type(response)))
            case Exception():
                log.error("the sandbox failed", exc_info=response)
                return SandboxFailed(f"the sandbox failed: {response!r}")
        self.metrics.count(response, seconds)
        return response

    def abort_requests(self) -> bool:
        """Reject all waiting requests, and kill the running programs; return whether there were any requests."""
        waiting = self.queue.drain()
        for job in waiting:
            job.respond(ServiceShutdown())
        threading.Thread(target=self.box.close).start()  # close() blocks until the workers have exited
        return bool(waiting) or self.queue.n_running > 0


class Session:
    """The requests of one front end, and the methods that it calls over the link."""

    def __init__(
        self, dispatcher: ServiceDispatcher, on_ready: Callable[[], object], on_end: Callable[[], object]
    ) -> None:
        self.jobs: dict[int, _Job] = {}
        self._dispatcher = dispatcher
        self._reservations: dict[int, tuple[str, int]] = {}
        self._on_end = on_end
        methods: dict[str, Callable[..., object]] = {
            "ready": on_ready,
            "execute": self._execute,
            "cancel": self._cancel,
            "admit": self._admit,
            "reserve": self._reserve,
            "release": self._release,
            "count": self._count,
            "describe": self._describe,
            "metrics": self._send_metrics,
        }
        self.link = Link(methods, self._end)

    def _execute(
        self, number: int, client: str, request: Request[Any], timeout_seconds: float | None, is_admitted: bool
    ) -> None:
        """Execute a request; respond with the result, or a ServiceError. See ServiceDispatcher.execute."""
        job = self.jobs[number] = _Job(client, is_admitted, session=self, number=number, request=request)
        try:
            self._dispatcher.execute(job, timeout_seconds)
        except ServiceError as refusal:
            job.respond(refusal)

    def _cancel(self, number: int) -> None:
        """Cancel a request; it gets no response."""
        if (job := self.jobs.pop(number, None)) is not None:
            self._dispatcher.cancel(job)

    def _admit(self, number: int, client: str) -> None:
        """Admit a batch; respond with None, or a ServiceError if the queue is full or draining."""
        self._respond(number, lambda: self._dispatcher.admit(client))

    def _reserve(self, number: int, client: str, n_bytes: int) -> None:
        """Reserve bytes for a body until `release`; respond with None, or TooManyRequests."""

        def acquire() -> None:
            self._dispatcher.byte_budget.acquire(client, n_bytes)
            self._reservations[number] = client, n_bytes

        self._respond(number, acquire)

    def _release(self, number: int) -> None:
        if number in self._reservations:
            self._dispatcher.byte_budget.release(*self._reservations.pop(number))

    def _count(self, path: str, status: int) -> None:
        self._dispatcher.metrics.responses.labels(path, status).inc()

    def _describe(self, number: int) -> None:
        """Respond with the properties and load of the Sandbox."""
        box, queue = self._dispatcher.box, self._dispatcher.queue
        about = {
            "workers": box.workers,
            "layers": box.layers,
            "packages": [asdict(package) for package in box.packages],
            "waiting": queue.n_waiting,
            "running": queue.n_running,
        }
        self.link.call("respond", number, about)

    def _send_metrics(self, number: int) -> None:
        """Respond with the metrics, after the counts that other front ends have already sent."""
        loop, metrics = self._dispatcher.loop, self._dispatcher.metrics
        loop.call_soon(lambda: self.link.call("respond", number, metrics.encode()))

    def _respond(self, number: int, action: Callable[[], None]) -> None:
        refusal: ServiceError | None = None
        try:
            action()
        except ServiceError as error:
            refusal = error
        self.link.call("respond", number, refusal)

    def _end(self) -> None:
        for number in list(self.jobs):
            self._cancel(number)
        for number in list(self._reservations):
            self._release(number)
        self._on_end()


class ByteBudget:
    """A memory budget for large request bodies. One client may use half of it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._by_client = Counter[str]()

    def acquire(self, client: str, n_bytes: int) -> None:
        """Reserve bytes. Raises TooManyRequests if they exceed the budget, unless they are the only ones."""
        total, own = self._by_client.total() + n_bytes, self._by_client[client] + n_bytes
        if total > n_bytes and (total > self._max_bytes or own > self._max_bytes // 2):
            raise TooManyRequests(1, "the memory for bodies of open requests is full")
        self._by_client[client] = own

    def release(self, client: str, n_bytes: int) -> None:
        self._by_client[client] -= n_bytes
        if not self._by_client[client]:
            del self._by_client[client]
