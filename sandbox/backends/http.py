"""The http backend: a remote `curate serve`.

The service has the queue and the workers. The client retries a request without a response until its retry budget is
exhausted, and then raises SandboxError; this is never a verdict. Requests have no side effects, so all are retried.
"""

import logging
import math
import os
import random
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

from sandbox import json_codec
from sandbox.concurrency.cancellation import CancelToken
from sandbox.concurrency.sockets import KEEPALIVE_OPTIONS
from sandbox.concurrency.thread_map import map_results
from sandbox.errors import (
    BackendUnavailable,
    ExecutionLost,
    KilledExternally,
    RefereeError,
    SandboxError,
    get_error_code,
)
from sandbox.extras import format_install_command
from sandbox.packages import Package, check_available, mark_requested
from sandbox.request import JudgeRequest, Request, Response

try:
    from sandbox.http_client import HttpClient, HttpResponse, ServerUnreachable
except ImportError as error:
    raise BackendUnavailable(f"the http backend: {error}; type: {format_install_command('http')}") from error

log = logging.getLogger(__name__)

_RETRY_VARIABLE = "CURATE_RETRY_SECONDS"  # environment variable for the default of retry_seconds
_JSON = {"content-type": "application/json"}
_TOO_MANY_REQUESTS = 429
_RETRYABLE = {_TOO_MANY_REQUESTS, 502, 503, 504}
_SANDBOX_ERRORS = {
    get_error_code(kind): kind for kind in (SandboxError, BackendUnavailable, ExecutionLost, KilledExternally)
}
_REQUEST_ERRORS = {get_error_code(kind): kind for kind in (ValueError, TypeError, RefereeError)}
_PREFETCH = 2  # concurrent requests of execute_many in excess of the workers, so that none is idle
_MAX_IDLE_CONNECTIONS = 64
_CONNECT_SECONDS = 10
_MAX_QUEUE_SECONDS = 1800  # time in the service's queue after which the service counts as hung
_MAX_FULL_QUEUE_SECONDS = 300  # retry budget of a request while the service's queue is full
_TIMEOUT_FACTOR = 21  # maximum duration of a run on a busy service, as a multiple of its time limit
_POLL_SECONDS = 0.2  # interval between checks for cancellation during a pause
_MAX_BACKOFF_SECONDS = 20  # maximum pause between retries, unless Retry-After is longer
_SOCKET_OPTIONS = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), *KEEPALIVE_OPTIONS]


def find_packages(requirements: Sequence[str], folder: str, url: str) -> tuple[Package, ...]:
    """Return the packages of a service. Raises BackendUnavailable if it lacks a requested one."""
    with closing(Backend(workers=None, isolation="best-effort", seed=None, url=url, packages=requirements)) as service:
        return service.packages


class Backend:
    """Runs programs at a service.

    url            address of the service, as printed by `curate serve`
    token          token of the service, if required; by default from http://anyone:TOKEN@host or from the environment
                   variable CURATE_TOKEN
    workers        maximum number of concurrent programs; by default the number of the service's workers
    retry_seconds  time, from the first failure on, for retries at a service that is unreachable or stopping; shared by
                   all requests; by default the environment variable CURATE_RETRY_SECONDS, or 60
    packages       packages that the service must have, see Sandbox

    While the service's queue is full, a request is retried for up to five minutes. Raises BackendUnavailable if no
    service responds or its isolation is too weak, and ValueError for a seed: only the service can set one.
    """

    def __init__(
        self,
        *,
        workers: int | None,
        isolation: str,
        seed: int | None,
        url: str = "",
        token: str | None = None,
        retry_seconds: float | None = None,
        packages: Sequence[str] = (),
        packages_from: str = "",
    ) -> None:
        try:
            self._client = HttpClient(
                url, connections=_MAX_IDLE_CONNECTIONS, connect_seconds=_CONNECT_SECONDS, socket_options=_SOCKET_OPTIONS
            )
        except ValueError as error:
            raise ValueError('the http backend needs url="http://host:port", as `curate serve` prints it') from error
        if packages_from:
            raise ValueError(
                "the http backend uses packages of the service's machine; start it with `curate serve --packages-from"
                " FOLDER`, and leave out packages_from"
            )
        if seed is not None:
            raise ValueError("the http backend accepts no seed, since all clients of a service share its seed")
        if token := token or self._client.password or os.environ.get("CURATE_TOKEN"):
            self._client.headers["authorization"] = f"Bearer {token}"
        self._url = self._client.url
        self._owner = os.getpid()
        self._retry_budget = _RetryBudget(self._url, _read_retry_seconds() if retry_seconds is None else retry_seconds)
        self._closed = threading.Event()
        about = self._fetch_health(isolation)
        self.workers: int = workers or about["workers"]
        self._max_concurrent = workers or self.workers + _PREFETCH
        self.layers: dict[str, str] = about["layers"]
        available = tuple(Package(**package) for package in about.get("packages", ()))
        remedy = f"Start it with: curate serve {' '.join(f'--package {shlex.quote(each)}' for each in packages)}"
        check_available(
            packages, {each.name: each.version for each in available}, f"the service at {self._url}", remedy
        )
        self.packages = tuple(mark_requested(each, packages) for each in available) if packages else ()

    def _fetch_health(self, isolation: str) -> dict[str, Any]:
        """Return the response to GET /health. Raises BackendUnavailable if the service cannot be used."""
        try:
            response = self._client.request("GET", "/health", read_seconds=_CONNECT_SECONDS)
        except ServerUnreachable as error:
            raise BackendUnavailable(f"no service responds at {self._url}: {error}; start one: curate serve") from error
        about = response.get_json_object()
        if response.status == 401 or about.get("authorized") is False:
            raise BackendUnavailable(f"the service at {self._url} needs its token: pass token=..., or set CURATE_TOKEN")
        if about.get("service") != "curate":
            seen = response.body[:200].decode("utf-8", "replace")
            raise BackendUnavailable(
                f"the server at {self._url} is not `curate serve`: response to GET /health: {response.status}, {seen!r}"
            )
        if response.status != 200:
            raise BackendUnavailable(f"the service at {self._url} is {about.get('status')}; restart it: curate serve")
        missing = [name for name, how in about["layers"].items() if how.startswith("none") and name != "numpy"]
        if isolation == "full" and missing:
            raise BackendUnavailable(
                f"the service at {self._url} runs programs without isolation of {', '.join(missing)}. To accept"
                ' that, pass isolation="best-effort" (--isolation best-effort).'
            )
        return about

    def execute(self, request: Request[Response], cancellation: CancelToken | None = None) -> Response:
        """Execute a request; see Backend.execute. Cancellation closes the connection; the service kills the program."""
        if cancellation is None:
            return self._send_with_retries(request, CancelToken())
        try:
            with self._client.open_interrupt() as interrupt, cancellation.call_on_cancel(interrupt):
                return self._send_with_retries(request, cancellation)
        except SandboxError:
            cancellation.raise_if_cancelled()
            raise

    def submit(self, request: Request[Response], on_response: Callable[[Any], object]) -> Callable[[], None]:
        """Execute the request in a thread; see Backend.submit."""
        cancellation = CancelToken()

        def run() -> None:
            try:
                response: Any = self.execute(request, cancellation)
            except Exception as error:
                response = error
            on_response(response)

        threading.Thread(target=run, daemon=True, name="sandbox-request").start()
        return cancellation.cancel

    def execute_many(self, requests: Iterable[Request[Response]]) -> Iterator[tuple[int, Response | Exception]]:
        return map_results(self.execute, requests, threads=self._max_concurrent)

    def close(self) -> None:
        self._closed.set()
        self._client.close()

    def _send_with_retries(self, request: Request[Response], cancellation: CancelToken) -> Response:
        """Send a request, with retries, and return its response. Raises as execute does."""
        path = "/judge_suite" if isinstance(request, JudgeRequest) else "/run"
        body, timeout_seconds = json_codec.dumps(request), _compute_timeout(request)
        start_time, first_failed, n_attempts = time.monotonic(), math.inf, 0
        while True:
            if os.getpid() != self._owner:
                raise SandboxError("this Sandbox belongs to the process that made it; make one in each process")
            if self._closed.is_set():
                raise SandboxError("this Sandbox is closed")
            cancellation.raise_if_cancelled()
            n_attempts += 1
            pause, is_full = min(_MAX_BACKOFF_SECONDS, 0.1 * 2**n_attempts), False
            try:
                response = self._client.request("POST", path, body, read_seconds=timeout_seconds, headers=_JSON)
            except ServerUnreachable as error:
                if self._closed.is_set() or cancellation.cancelled:
                    continue  # close() or a cancellation has closed the connection
                reason = str(error)
            else:
                is_full = response.status == _TOO_MANY_REQUESTS
                if is_full or response.status not in _RETRYABLE:
                    self._retry_budget.record_success()
                if response.status == 200:
                    return self._decode_response(response, request.result_type)
                reason, pause = self._get_retry_reason(response), max(pause, response.retry_after_seconds)
            now = time.monotonic()
            if is_full:
                remaining_seconds = start_time + _MAX_FULL_QUEUE_SECONDS - now
            else:
                first_failed = min(first_failed, now)
                remaining_seconds = self._retry_budget.record_failure(reason, first_failed)
            if remaining_seconds <= 0:
                raise ExecutionLost(f"no response from the service at {self._url} (attempts: {n_attempts}): {reason}")
            self._back_off(min(remaining_seconds, pause * random.uniform(1, 1.3)), cancellation)

    def _back_off(self, seconds: float, cancellation: CancelToken) -> None:
        end = time.monotonic() + seconds
        while (remaining_seconds := end - time.monotonic()) > 0 and not cancellation.cancelled:
            if self._closed.wait(min(remaining_seconds, _POLL_SECONDS)):
                return

    def _decode_response(self, response: HttpResponse, response_type: type[Response]) -> Response:
        try:
            return json_codec.decode(response_type, json_codec.loads(response.body))
        except ValueError as error:
            raise SandboxError(
                f"cannot decode the response of the service at {self._url}: {error}; install the same version of"
                " curate-code on both machines"
            ) from error

    def _get_retry_reason(self, response: HttpResponse) -> str:
        """Return the reason why a retry may help; otherwise raise the error in the response."""
        message, name = response.get_error_message(), str(response.get_json_object().get("error"))
        if response.status == 422:
            raise _REQUEST_ERRORS.get(name, ValueError)(message)
        if name in _SANDBOX_ERRORS:  # the service's sandbox has already retried
            raise _SANDBOX_ERRORS[name](f"the service at {self._url} responded: {message}")
        if response.status in _RETRYABLE:
            return f"{response.status}, {message}"
        raise SandboxError(f"the service at {self._url} responded with {response.status}: {message}")


class _RetryBudget:
    """The time for retries at a service that is down, shared by all threads.

    seconds   time from the first failure on. Later requests get a single attempt, until one gets a response
    """

    def __init__(self, url: str, seconds: float) -> None:
        self._url, self._seconds = url, seconds
        self._lock = threading.Lock()
        self._outage_start: float | None = None

    def record_failure(self, message: str, first_failed: float) -> float:
        """Record a failure of a request; return the remaining seconds for its retries, which may be negative.

        first_failed   monotonic time of the request's first failure
        """
        now = time.monotonic()
        with self._lock:
            is_first = self._outage_start is None
            outage_start = self._outage_start = now if self._outage_start is None else self._outage_start
        if is_first:
            log.warning(
                "the service at %s is unreachable: %s. Retrying for %g s (set %s to change this); after that, requests "
                "fail and their verdicts are unknown. Check that `curate serve` runs at that address.",
                self._url,
                message,
                self._seconds,
                _RETRY_VARIABLE,
            )
        return min(outage_start, first_failed) + self._seconds - now

    def record_success(self) -> None:
        """Record that the service has responded."""
        with self._lock:
            outage_start, self._outage_start = self._outage_start, None
        if outage_start is not None:
            log.warning("the service at %s responds again, after %.0f s", self._url, time.monotonic() - outage_start)


def _read_retry_seconds() -> float:
    text = os.environ.get(_RETRY_VARIABLE) or "60"
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) < math.inf:
            return seconds
    raise ValueError(f"{_RETRY_VARIABLE} must be a number of seconds, such as 60, not {text!r}")


def _compute_timeout(request: Request[object]) -> float:
    """Return the seconds without a response to this request after which the service counts as hung."""
    n_runs = len(request.suite.cases) if isinstance(request, JudgeRequest) else 1
    limits = request.run_limits
    return _MAX_QUEUE_SECONDS + _TIMEOUT_FACTOR * max(limits.wall_seconds, limits.cpu_seconds or 0) * n_runs
