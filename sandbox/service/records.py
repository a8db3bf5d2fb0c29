"""POST /judge: records as `curate judge` reads them, verdicts as it writes them.

One record is answered by one verdict. An array of records, or {"records": [...]}, is answered by an array in the same
order, or, where JSON Lines are accepted, line by line as the verdicts come. In a batch a record that is malformed or
that the sandbox failed at has an `error`, and its place `index`, in place of a verdict: nothing is known about it.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sandbox import messages, record
from sandbox.cases import Suite
from sandbox.program import Program
from sandbox.service import bounds
from sandbox.service.answers import Gone, Malformed, Refusal
from sandbox.service.asking import Asking
from sandbox.service.work import Work, malformed

LINES = "application/x-ndjson"
_AHEAD = 2  # records of one batch in the line, for each worker: other requests have their turns between them


async def judge(work: Work, asking: Asking, request: Request) -> Response:
    run_all = request.query_params.get("run_all", "false").lower() in ("true", "1")
    raw = await asking.json()
    batch = raw.get("records") if isinstance(raw, dict) and "records" in raw else raw
    if isinstance(batch, dict):
        answer = await _judge(work, asking, batch, run_all=run_all)
        return Response(answer, media_type="application/json")
    if not isinstance(batch, list):
        raise Malformed("the body must be a record, an array of records, or an object with the array `records`")
    work.line.check_room()
    answers = _judge_all(work, asking, batch, run_all=run_all)
    if LINES in request.headers.get("accept", ""):
        return _Lines(answers)
    return Response(b"[" + b",".join([answer async for answer in answers]) + b"]", media_type="application/json")


async def _judge(work: Work, asking: Asking, raw: Any, *, run_all: bool, admitted: bool = False) -> bytes:
    identity, program, suite = _parse(raw)

    def call() -> bytes:
        return messages.dumps(record.verdict_line(identity, work.judge(program, suite, run_all=run_all)))

    return await work.in_turn(asking, call, admitted=admitted)


def _parse(raw: Any) -> tuple[str | int, Program, Suite]:
    with malformed():
        identity, program, suite = record.parse(raw)
        bounds.check(suite.limits)
    return identity, program, suite


async def _judge_all(work: Work, asking: Asking, batch: list[Any], *, run_all: bool) -> AsyncGenerator[bytes]:
    """The answers in order, each as soon as it and those before it are there. Raises Gone."""
    window = asyncio.Semaphore(_AHEAD * work.box.workers)

    async def answer(index: int, raw: Any) -> bytes:
        try:
            async with window:
                if asking.departure().done():
                    raise Gone
                return await _judge(work, asking, raw, run_all=run_all, admitted=True)
        except Refusal as refusal:
            cause = "malformed record" if isinstance(refusal, Malformed) else "sandbox"
            return messages.dumps({"index": index, "id": _identity(raw), "error": f"{cause}: {refusal}"})

    tasks = [asyncio.create_task(answer(index, raw)) for index, raw in enumerate(batch)]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _identity(raw: Any) -> str | int | None:
    identity = raw.get("id") if isinstance(raw, dict) else None
    return identity if isinstance(identity, str | int) else None


class _Lines(Response):
    """Sends each answer as soon as it is there."""

    media_type = LINES

    def __init__(self, answers: AsyncGenerator[bytes]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with suppress(Gone):
            async with aclosing(self._answers) as answers:
                async for answer in answers:
                    await send({"type": "http.response.body", "body": answer + b"\n", "more_body": True})
            await send({"type": "http.response.body", "body": b""})
