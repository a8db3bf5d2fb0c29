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
from sandbox.concurrency.cancellation import Cancellation
from sandbox.errors import Cancelled, SandboxError, error_code
from sandbox.judge import Judgement
from sandbox.program import RunResult
from sandbox.request import JudgeRequest, RunRequest
from sandbox.service import bounds, helpers, translation
from sandbox.service.admission import FairQueue
from sandbox.service.held_bytes import HeldBytes
from sandbox.service.pace import Pace
from sandbox.service.prometheus import Metrics
from sandbox.service.refusals import Failed, Gone, Stopping, malformed
from sandbox.service.settings import ANSWER_BYTES, BODIES, Settings
from sandbox.service.translation import Batch, Request

log = logging.getLogger(__name__)

_AHEAD = 2  # turns beyond the number of workers (at most doubling it): a free worker finds its next request ready


class Requester(Protocol):
    """The client that sent a request, and the path that it asked for."""

    path: str
    client: str

    def departure(self) -> "asyncio.Future[None]":
        """Return a future that completes when the client goes away."""


class Executor:
    """Runs and judges what requests ask for, and counts what happened."""

    def __init__(self, box: Sandbox, settings: Settings) -> None:
        self.box = box
        self.settings = settings
        self.bounds = bounds.Bounds(settings.most or bounds.default_most(box.workers))
        turns = box.workers + min(_AHEAD, box.workers)
        self.queue = FairQueue(turns, settings.queue)
        self.pace = Pace(self.queue.is_crowded)
        self.bodies = HeldBytes(BODIES * settings.max_body, "requests that have not been answered")
        self.answers = HeldBytes(ANSWER_BYTES, "answers that have not been read")
        self.metrics = Metrics(self.queue, box.workers)
        self._threads = ThreadPoolExecutor(turns, "turn")
        self._helpers = helpers.Helpers()
        self._readers = ThreadPoolExecutor(helpers.NUMBER, "read")

    async def parse_large(self, path: str, body: bytes) -> Request | bytes | Batch:
        """Return what a large body asks for; a helper process parses it. Raises a Refusal."""
        loop = asyncio.get_running_loop()
        parsed: Request | bytes | Batch = await loop.run_in_executor(
            self._readers, self._helpers.ask, "read", path, body, self.bounds
        )
        return parsed

    async def in_turn(
        self,
        requester: Requester,
        request: Request | bytes,
        identity: str | int | None = None,
        *,
        run_all: bool | None = None,
        patience_seconds: float | None = None,
        admitted: bool = False,
    ) -> bytes:
        """Wait for a turn, carry the request out and return its answer. If the client goes away, its program is killed.

        Raises a Refusal, or Gone: see FairQueue.turn.
        """
        turn = self.queue.turn(requester.client, requester.departure, patience_seconds, admitted=admitted)
        async with turn as waited_seconds:
            self.metrics.queue_seconds.observe(waited_seconds)
            cancellation = Cancellation()
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(
                self._threads, self._answer, requester.path, request, identity, run_all, cancellation
            )
            try:
                await asyncio.wait((running, requester.departure()), return_when=asyncio.FIRST_COMPLETED)
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
        cancellation: Cancellation,
    ) -> bytes:
        """Carry a request out, in a thread. Raises a Refusal, or Gone."""
        request = translation.unpack(packed)
        if isinstance(request, RunRequest):
            result: RunResult | Judgement = self._run(request, cancellation)
        else:
            result = self._judge(request, request.run_all if run_all is None else run_all, cancellation)
        arguments = path, identity, request.program.language, request.run_limits, result
        if translation.is_small(result):
            return translation.encode(*arguments)
        encoded: bytes = self._helpers.ask("write", *arguments)
        return encoded

    def _run(self, request: RunRequest, cancellation: Cancellation) -> RunResult:
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

    def _judge(self, request: JudgeRequest, run_all: bool, cancellation: Cancellation) -> Judgement:
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

    def give_up(self) -> None:
        """Answer all requests now: turn away those that wait, and kill the programs of those that run."""
        self.queue.give_up()
        threading.Thread(target=self.box.close).start()  # closing waits for the workers

    def close(self) -> None:
        """End the helper processes. The Sandbox is left to the caller."""
        self._helpers.close()

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        """Time a call of the Sandbox, and turn its exceptions into Refusals, or Gone."""
        began = time.monotonic()
        try:
            with malformed():
                yield
        except Cancelled:
            self.metrics.cancelled.inc()
            raise Gone from None
        except SandboxError as error:
            if self.queue.draining:  # the box was closed because we gave up
                raise Stopping from error
            self.metrics.failures.inc()
            log.warning("the sandbox failed: %s", error)
            raise Failed(str(error), error=error_code(type(error))) from error
        self.metrics.work_seconds.labels(kind).observe(time.monotonic() - began)
