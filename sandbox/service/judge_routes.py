"""POST /judge: records as `curate judge` reads them, verdicts as it writes them.

One record is answered by one verdict. An array of records, or {"records": [...]}, is answered by an array in the same
order, or, where JSON Lines are accepted, line by line as the verdicts come. In a batch a record that is malformed or
that the sandbox failed at has an `error`, and its place `index`, in place of a verdict: nothing is known about it.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from starlette.requests import Request
from starlette.responses import Response

from sandbox import messages
from sandbox.service.executor import Work
from sandbox.service.refusals import Gone, Malformed, Refusal
from sandbox.service.request_body import Asking
from sandbox.service.sending import LINES, Lines, Whole
from sandbox.service.translation import Batch, Record

_AHEAD = 2  # records of one batch in the line, for each worker: other requests have their turns between them


async def judge(work: Work, asking: Asking, request: Request) -> Response:
    run_all = request.query_params.get("run_all", "false").lower() in ("true", "1")
    batch = await asking.read()
    assert isinstance(batch, Batch)
    if batch.alone:
        return Whole(await _judge(work, asking, batch.records[0], run_all=run_all), asking, work)
    work.line.check_room(asking.client)
    answers = _judge_all(work, asking, batch.records, run_all=run_all)
    if LINES in request.headers.get("accept", ""):
        return Lines(answers)
    return Whole(b"[" + b",".join([answer async for answer in answers]) + b"]", asking, work)


async def _judge(work: Work, asking: Asking, record: Record, *, run_all: bool, admitted: bool = False) -> bytes:
    if isinstance(record.request, str):
        raise Malformed(record.request)
    return await work.in_turn(asking, record.request, record.identity, run_all=run_all, admitted=admitted)


async def _judge_all(work: Work, asking: Asking, records: Sequence[Record], *, run_all: bool) -> AsyncGenerator[bytes]:
    """The answers in order, each as soon as it and those before it are there. Raises Gone."""
    window = asyncio.Semaphore(_AHEAD * work.box.workers)

    async def answer(index: int, record: Record) -> bytes:
        try:
            async with window:
                if asking.departure().done():
                    raise Gone
                return await _judge(work, asking, record, run_all=run_all, admitted=True)
        except Refusal as refusal:
            cause = "malformed record" if isinstance(refusal, Malformed) else "sandbox"
            return messages.dumps({"index": index, "id": record.identity, "error": f"{cause}: {refusal}"})

    tasks = [asyncio.create_task(answer(index, record)) for index, record in enumerate(records)]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
