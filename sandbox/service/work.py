"""The Sandbox, shared by all requests: each in its turn, in a thread, so that the event loop never waits for one."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from sandbox.box import Sandbox
from sandbox.cases import Suite
from sandbox.errors import SandboxError
from sandbox.judge import Judgement
from sandbox.program import Invocation, Limits, Program, RunResult
from sandbox.service.answers import Failed, Malformed, Stopping
from sandbox.service.asking import Asking
from sandbox.service.line import Line
from sandbox.service.measures import Measures
from sandbox.service.settings import Settings

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_AHEAD = 2  # turns more than workers, but no more than workers: one that comes free finds its next request there


class Work:
    """What requests have done, and the counts of it."""

    def __init__(self, box: Sandbox, settings: Settings) -> None:
        self.box = box
        places = box.workers + min(_AHEAD, box.workers)
        self.line = Line(places, settings.queue)
        self.measures = Measures(self.line, box.workers)
        self._threads = ThreadPoolExecutor(places, "turn")

    async def in_turn(
        self, asking: Asking, call: Callable[[], Result], *, patience: float | None = None, admitted: bool = False
    ) -> Result:
        """call() in a thread, as soon as it is the request's turn. Raises a Refusal, or Gone: see Line.turn."""
        async with self.line.turn(asking.departure, patience, admitted=admitted) as waited:
            self.measures.queue_seconds.observe(waited)
            running = asyncio.get_running_loop().run_in_executor(self._threads, call)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                await asyncio.wait([running])  # the turn is not over before its thread is free
                raise

    def run(self, program: Program, invocation: Invocation, limits: Limits) -> RunResult:
        """Raises a Refusal."""
        with self._measured("run"):
            result = self.box.run(
                program,
                invocation.stdin,
                limits,
                arguments=invocation.arguments,
                files=invocation.files,
                fetch=invocation.fetch,
            )
        self.measures.outcomes.labels(result.outcome.value).inc()
        return result

    def judge(self, program: Program, suite: Suite, *, run_all: bool) -> Judgement:
        """Raises a Refusal."""
        with self._measured("judge"):
            judgement = self.box.judge(program, suite, run_all=run_all)
        self.measures.verdicts.labels(judgement.verdict.value).inc()
        return judgement

    def give_up(self) -> None:
        """Answer all requests at once: those that wait, and those that run, whose programs are killed."""
        self.line.give_up()
        threading.Thread(target=self.box.close).start()  # it waits for the workers

    @contextmanager
    def _measured(self, kind: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            with malformed():
                yield
        except SandboxError as error:
            if self.line.draining:  # it was told to give up
                raise Stopping from error
            self.measures.failures.inc()
            log.warning("the sandbox failed: %s", error)
            raise Failed(str(error), error=type(error).__name__) from error
        self.measures.work_seconds.labels(kind).observe(time.monotonic() - began)


@contextmanager
def malformed() -> Iterator[None]:
    """What a request's own content makes something raise becomes Malformed."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise Malformed(str(error), error=type(error).__name__) from error
