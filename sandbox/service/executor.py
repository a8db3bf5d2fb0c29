"""The Sandbox, shared by all requests. Each request runs in a thread when its turn has come, so that the event loop is
never blocked."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

from sandbox.box import Sandbox
from sandbox.concurrency.cancellation import CancelToken
from sandbox.errors import Cancelled, SandboxError, error_code
from sandbox.judge import Judgement
from sandbox.program import RunResult
from sandbox.request import JudgeRequest, RunRequest
from sandbox.service import json_processes, request_bounds, request_codec
from sandbox.service.byte_budget import ByteBudget
from sandbox.service.fair_queue import FairQueue
from sandbox.service.prometheus import ServiceMetrics
from sandbox.service.rate_limit import RateLimiter
from sandbox.service.request_codec import JudgeBatch, Request
from sandbox.service.service_errors import ClientDisconnected, SandboxFailed, ShuttingDown, translate_parse_errors
from sandbox.service.settings import ANSWER_BYTES, MAX_HELD_BODIES, ServiceSettings

log = logging.getLogger(__name__)

_PREFETCH = 2  # turns beyond the number of workers (at most doubling it): a free worker finds its next request ready


class ClientConnection(Protocol):
    """The client that sent a request, and the path that it asked for."""

    path: str
    client: str

    def disconnect_future(self) -> "asyncio.Future[None]":
        """Return a future that completes when the client goes away."""


class RequestExecutor:
    """Runs and judges what requests ask for, and counts what happened."""

    def __init__(self, box: Sandbox, settings: ServiceSettings) -> None:
        self.box = box
        self.settings = settings
        self.bounds = request_bounds.RequestBounds(
            settings.max_limits or request_bounds.default_max_limits(box.workers)
        )
        turns = box.workers + min(_PREFETCH, box.workers)
        self.queue = FairQueue(turns, settings.max_queued_requests)
        self.pace = RateLimiter(self.queue.is_contended)
        self.bodies = ByteBudget(MAX_HELD_BODIES * settings.max_body, "requests that have not been answered")
        self.answers = ByteBudget(ANSWER_BYTES, "answers that have not been read")
        self.metrics = ServiceMetrics(self.queue, box.workers)
        self._threads = ThreadPoolExecutor(turns, "turn")
        self._helpers = json_processes.JsonProcessPool()
        self._readers = ThreadPoolExecutor(json_processes.NUMBER, "read")

    async def parse_large_body(self, path: str, body: bytes) -> Request | bytes | JudgeBatch:
        """Return what a large body asks for; a helper process parses it. Raises a ServiceError."""
        loop = asyncio.get_running_loop()
        parsed: Request | bytes | JudgeBatch = await loop.run_in_executor(
            self._readers, self._helpers.run_task, "read", path, body, self.bounds
        )
        return parsed

    async def execute_queued(
        self,
        requester: ClientConnection,
        request: Request | bytes,
        identity: str | int | None = None,
        *,
        run_all: bool | None = None,
        timeout_seconds: float | None = None,
        admitted: bool = False,
    ) -> bytes:
        """Wait for a turn, carry the request out and return its answer. If the client goes away, its program is killed.

        Raises a ServiceError, or ClientDisconnected: see FairQueue.turn.
        """
        turn = self.queue.wait_for_turn(
            requester.client, requester.disconnect_future, timeout_seconds, admitted=admitted
        )
        async with turn as waited_seconds:
            self.metrics.queue_seconds.observe(waited_seconds)
            cancellation = CancelToken()
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(
                self._threads, self._answer, requester.path, request, identity, run_all, cancellation
            )
            try:
                await asyncio.wait((running, requester.disconnect_future()), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not running.done():
                    cancellation.cancel()
                    await asyncio.wait([running])  # the turn lasts until its thread is free
            return running.result()

    def _answer(
        self,
        path: str,
        packed: Request | bytes,
        identity: str | int | None,
        run_all: bool | None,
        cancellation: CancelToken,
    ) -> bytes:
        """Carry a request out, in a thread. Raises a ServiceError, or ClientDisconnected."""
        request = request_codec.unpack(packed)
        if isinstance(request, RunRequest):
            result: RunResult | Judgement = self._run(request, cancellation)
        else:
            result = self._judge(request, request.run_all if run_all is None else run_all, cancellation)
        arguments = path, identity, request.program.language, request.run_limits, result
        if request_codec.is_small(result):
            return request_codec.encode(*arguments)
        encoded: bytes = self._helpers.run_task("write", *arguments)
        return encoded

    def _run(self, request: RunRequest, cancellation: CancelToken) -> RunResult:
        invocation = request.invocation
        with self._timed("run"):
            result = self.box.run(
                request.program,
                invocation.stdin,
                request.limits,
                arguments=invocation.arguments,
                files=invocation.files,
                fetch=invocation.fetch,
                cancellation=cancellation,
            )
        self.metrics.outcomes.labels(result.outcome.value).inc()
        return result

    def _judge(self, request: JudgeRequest, run_all: bool, cancellation: CancelToken) -> Judgement:
        with self._timed("judge"):
            judgement = self.box.judge(
                request.program,
                request.suite,
                run_all=run_all,
                keep_outputs=request.keep_outputs,
                cancellation=cancellation,
            )
        self.metrics.verdicts.labels(judgement.verdict.value).inc()
        return judgement

    def abort_all(self) -> None:
        """Answer all requests now: turn away those that wait, and kill the programs of those that run."""
        self.queue.reject_waiting()
        threading.Thread(target=self.box.close).start()  # closing waits for the workers

    def close(self) -> None:
        """End the helper processes. The Sandbox is left to the caller."""
        self._helpers.close()

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        """Time a call of the Sandbox, and turn its exceptions into Refusals, or ClientDisconnected."""
        start_time = time.monotonic()
        try:
            with translate_parse_errors():
                yield
        except Cancelled:
            self.metrics.cancelled.inc()
            raise ClientDisconnected from None
        except SandboxError as error:
            if self.queue.draining:  # the box was closed because we gave up
                raise ShuttingDown from error
            self.metrics.failures.inc()
            log.warning("the sandbox failed: %s", error)
            raise SandboxFailed(str(error), error=error_code(type(error))) from error
        self.metrics.work_seconds.labels(kind).observe(time.monotonic() - start_time)
