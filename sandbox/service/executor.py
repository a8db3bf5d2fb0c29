"""The Sandbox, shared by all requests: each in its turn, in a thread, so that the event loop never waits for one."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

from sandbox import maxima
from sandbox.box import Sandbox
from sandbox.concurrency.cancellation import Cancellation
from sandbox.errors import Cancelled, SandboxError
from sandbox.judge import Judgement
from sandbox.program import RunResult
from sandbox.service import bounds, helpers, translation
from sandbox.service.admission import Line
from sandbox.service.held import Held
from sandbox.service.pace import Pace
from sandbox.service.prometheus import Measures
from sandbox.service.refusals import Failed, Gone, Stopping, malformed
from sandbox.service.settings import ANSWER_BYTES, BODIES, Settings
from sandbox.service.translation import Batch, Request

log = logging.getLogger(__name__)

_AHEAD = 2  # turns more than workers, but no more than workers: one that comes free finds its next request there


class Asker(Protocol):
    """Whose request it is."""

    path: str
    client: str

    def departure(self) -> "asyncio.Future[None]":
        """Completes when the client goes away."""


class Work:
    """What requests have done, and the counts of it."""

    def __init__(self, box: Sandbox, settings: Settings) -> None:
        self.box = box
        self.settings = settings
        self.bounds = bounds.Bounds(settings.most or bounds.default_most(box.workers))
        places = box.workers + min(_AHEAD, box.workers)
        self.line = Line(places, settings.queue)
        self.pace = Pace(self.line.is_crowded)
        self.bodies = Held(BODIES * settings.max_body, "requests that are not answered yet")
        self.answers = Held(ANSWER_BYTES, "answers that are not read")
        self.measures = Measures(self.line, box.workers)
        self._threads = ThreadPoolExecutor(places, "turn")
        self._helpers = helpers.Helpers()
        self._readers = ThreadPoolExecutor(helpers.NUMBER, "read")

    async def read(self, path: str, body: bytes) -> Request | bytes | Batch:
        """What a large body asks for. Raises a Refusal."""
        loop = asyncio.get_running_loop()
        asked: Request | bytes | Batch = await loop.run_in_executor(
            self._readers, self._helpers.ask, "read", path, body, self.bounds
        )
        return asked

    async def in_turn(
        self,
        asker: Asker,
        request: Request | bytes,
        identity: str | int | None = None,
        *,
        run_all: bool | None = None,
        patience: float | None = None,
        admitted: bool = False,
    ) -> bytes:
        """The answer to a request, as soon as it is its turn. When the client goes, its program is killed.

        Raises a Refusal, or Gone: see Line.turn.
        """
        async with self.line.turn(asker.client, asker.departure, patience, admitted=admitted) as waited:
            self.measures.queue_seconds.observe(waited)
            cancellation = Cancellation()
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(
                self._threads, self._answer, asker.path, request, identity, run_all, cancellation
            )
            try:
                await asyncio.wait((running, asker.departure()), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not running.done():
                    cancellation.cancel()
                    await asyncio.wait([running])  # the turn is not over before its thread is free
            return running.result()

    def _answer(
        self,
        path: str,
        packed: Request | bytes,
        identity: str | int | None,
        run_all: bool | None,
        cancellation: Cancellation,
    ) -> bytes:
        """In a thread. Raises a Refusal, or Gone."""
        request = translation.opened(packed)
        if request[0] == "run":
            result: RunResult | Judgement = self._run(request, cancellation)
        else:
            result = self._judge(request, request[3] if run_all is None else run_all, cancellation)
        about = path, identity, request[1].language, maxima.limits_of(request), result
        if translation.is_small(result):
            return translation.write(*about)
        written: bytes = self._helpers.ask("write", *about)
        return written

    def _run(self, request: Request, cancellation: Cancellation) -> RunResult:
        _, program, invocation, limits = request
        with self._measured("run"):
            result = self.box.run(
                program,
                invocation.stdin,
                limits,
                arguments=invocation.arguments,
                files=invocation.files,
                fetch=invocation.fetch,
                cancellation=cancellation,
            )
        self.measures.outcomes.labels(result.outcome.value).inc()
        return result

    def _judge(self, request: Request, run_all: bool, cancellation: Cancellation) -> Judgement:
        _, program, suite, _ = request
        with self._measured("judge"):
            judgement = self.box.judge(program, suite, run_all=run_all, cancellation=cancellation)
        self.measures.verdicts.labels(judgement.verdict.value).inc()
        return judgement

    def give_up(self) -> None:
        """Answer all requests at once: those that wait, and those that run, whose programs are killed."""
        self.line.give_up()
        threading.Thread(target=self.box.close).start()  # it waits for the workers

    def close(self) -> None:
        """End what is not the Sandbox's, which stays the caller's."""
        self._helpers.close()

    @contextmanager
    def _measured(self, kind: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            with malformed():
                yield
        except Cancelled:
            self.measures.cancelled.inc()
            raise Gone from None
        except SandboxError as error:
            if self.line.draining:  # it was told to give up
                raise Stopping from error
            self.measures.failures.inc()
            log.warning("the sandbox failed: %s", error)
            raise Failed(str(error), error=type(error).__name__) from error
        self.measures.work_seconds.labels(kind).observe(time.monotonic() - began)
