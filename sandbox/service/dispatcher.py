"""The Sandbox and its queue, shared by all front ends, in one event loop.

A front end calls the methods of its Session; see link.py. It numbers its requests; the dispatcher calls `respond` once
for each number, unless the front end cancels it first.
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
from sandbox.errors import Cancelled, SandboxError, error_code
from sandbox.request import Request
from sandbox.service.fair_queue import FairQueue, Turn
from sandbox.service.link import Link
from sandbox.service.prometheus import ServiceMetrics
from sandbox.service.service_errors import (
    MalformedRequest,
    QueueTimeout,
    SandboxFailed,
    ServiceError,
    ShuttingDown,
    TooManyRequests,
)
from sandbox.service.settings import ServiceSettings

log = logging.getLogger(__name__)

_PREFETCH = 2  # turns in addition to one per worker, at most as many, so that no worker is idle


@dataclass(eq=False, slots=True)
class _Job(Turn):
    """A request of a front end, and its turn."""

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
    """Schedules the requests of all front ends on the Sandbox, and updates the metrics."""

    def __init__(self, box: Sandbox, settings: ServiceSettings) -> None:
        self.box = box
        self.queue = FairQueue[_Job](box.workers + min(_PREFETCH, box.workers), settings.max_queued_requests)
        self.metrics = ServiceMetrics(self.queue, box.workers)
        self.byte_budget = ByteBudget(settings.max_buffered_bytes)
        self.loop = asyncio.get_running_loop()
        self._responses: deque[tuple[_Job, Any]] = deque()  # from the threads of the Sandbox
        self._is_scheduled = False

    def make_room(self, client: str) -> None:
        """Make room in the queue for a request of this client; see FairQueue. Raises TooManyRequests, ShuttingDown."""
        if (job := self.queue.make_room(client)) is not None:
            job.respond(TooManyRequests(self.queue.retry_after_seconds()))

    def enter(self, job: _Job, timeout_seconds: float | None) -> None:
        """Start or queue a request. Raises as make_room does."""
        if not job.admitted:
            self.make_room(job.client)
        if self.queue.enter(job):
            self._begin(job)
        elif timeout_seconds is not None:
            job.deadline = self.loop.call_later(timeout_seconds, self._time_out, job)

    def leave(self, job: _Job) -> None:
        """Kill the program of a request, or remove it from the queue."""
        job.cancel_deadline()
        if not job.start_time:
            self.queue.leave(job)
        elif job.cancel is not None:
            job.cancel()

    def _time_out(self, job: _Job) -> None:
        self.queue.leave(job)
        job.respond(QueueTimeout(self.queue.retry_after_seconds()))

    def _begin(self, job: _Job) -> None:
        job.cancel_deadline()
        self.metrics.queue_seconds.observe(job.start_time - job.arrival_time)
        try:
            job.cancel = self.box.submit(job.request, partial(self._take_response, job))
        except Exception as error:
            self._take_response(job, error)

    def _take_response(self, job: _Job, response: Any) -> None:
        """Accept a response, from any thread."""
        self._responses.append((job, response))
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon_threadsafe(self._deliver_responses)

    def _deliver_responses(self) -> None:
        self._is_scheduled = False
        while self._responses:
            job, response = self._responses.popleft()
            seconds = time.monotonic() - job.start_time
            following = self.queue.end(job)
            if following is not None:
                self._begin(following)
            job.respond(self._to_response(response, seconds))

    def _to_response(self, response: Any, seconds: float) -> Any:
        """Record a response in the metrics; return it, or the ServiceError for an exception."""
        match response:
            case Cancelled():
                self.metrics.cancelled.inc()
                return ShuttingDown()  # sent only if the Sandbox was closed; otherwise the client has disconnected
            case SandboxError() if self.queue.draining:  # abort_requests() has closed the Sandbox
                return ShuttingDown()
            case SandboxError():
                self.metrics.failures.inc()
                log.warning("the sandbox failed: %s", response)
                return SandboxFailed(str(response), error=error_code(type(response)))
            case ValueError() | TypeError() | KeyError() | OverflowError() | RecursionError():
                return MalformedRequest(str(response), error=error_code(type(response)))
            case Exception():
                log.error("the sandbox failed", exc_info=response)
                return SandboxFailed(f"the sandbox failed: {response!r}")
        self.metrics.count(response, seconds)
        return response

    def abort_requests(self) -> bool:
        """Fail all requests: reject the queued ones, and kill the programs of the others. Return whether there were
        any."""
        waiting = self.queue.drop_waiting()
        for job in waiting:
            job.respond(ShuttingDown())
        threading.Thread(target=self.box.close).start()  # in a thread, since closing waits for the workers
        return bool(waiting) or self.queue.n_running > 0


class Session:
    """The requests of one front end."""

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
            "make_room": self._make_room,
            "reserve": self._reserve,
            "release": self._release,
            "count": self._count,
            "describe": self._describe,
            "metrics": self._send_metrics,
        }
        self.link = Link(methods, self._end)

    def _execute(
        self, number: int, client: str, request: Request[Any], timeout_seconds: float | None, admitted: bool
    ) -> None:
        """Respond with the result, or a ServiceError.

        timeout_seconds  maximum time in the queue; None for no limit
        admitted         see Turn
        """
        job = self.jobs[number] = _Job(client, admitted, session=self, number=number, request=request)
        try:
            self._dispatcher.enter(job, timeout_seconds)
        except ServiceError as refusal:
            job.respond(refusal)

    def _cancel(self, number: int) -> None:
        """Cancel a request; it gets no response."""
        if (job := self.jobs.pop(number, None)) is not None:
            self._dispatcher.leave(job)

    def _make_room(self, number: int, client: str) -> None:
        """Respond with None, or a ServiceError if the queue has no room for this client."""
        self._respond(number, lambda: self._dispatcher.make_room(client))

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
        """Respond with the properties of the Sandbox, and its load."""
        box, queue = self._dispatcher.box, self._dispatcher.queue
        about = {
            "workers": box.workers,
            "layers": box.layers,
            "packages": [asdict(package) for package in box.packages],
            "waiting": queue.waiting,
            "running": queue.n_running,
        }
        self.link.call("respond", number, about)

    def _send_metrics(self, number: int) -> None:
        """Respond with the metrics, after processing the counts that other front ends have already sent."""
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
    """A budget for the bytes of large bodies of open requests; one client may use half of `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._by_client = Counter[str]()

    def acquire(self, client: str, n_bytes: int) -> None:
        """Reserve bytes. Raises TooManyRequests if that exceeds the budget, unless nothing else is reserved."""
        total, own = self._by_client.total() + n_bytes, self._by_client[client] + n_bytes
        if total > n_bytes and (total > self._max_bytes or own > self._max_bytes // 2):
            raise TooManyRequests(1, "the service holds too many bytes of open requests")
        self._by_client[client] = own

    def release(self, client: str, n_bytes: int) -> None:
        """Release bytes that this client has reserved."""
        self._by_client[client] -= n_bytes
        if not self._by_client[client]:
            del self._by_client[client]
