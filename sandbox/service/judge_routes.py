"""POST /judge: the records and verdicts of `curate judge`.

The response to one record is one verdict. The response to an array of records, or {"records": [...]}, is an array in
the same order or, if the client accepts JSON Lines, a stream. A malformed record of a batch, or one that the sandbox
failed to judge, gets an object with `error` and `index`.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from sandbox import json_codec
from sandbox.service import request_codec
from sandbox.service.dispatcher_client import DispatcherClient
from sandbox.service.request_body import IncomingRequest
from sandbox.service.request_codec import BatchRecord, JudgeBatch
from sandbox.service.responses import JSON_LINES, JsonLinesResponse, make_json_response
from sandbox.service.service_errors import ClientDisconnected, MalformedRequest, ServiceError

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_PREFETCH = 2  # maximum number of unfinished records of a batch per worker, so that a batch does not fill the queue


async def judge(dispatcher: DispatcherClient, incoming: IncomingRequest, request: Request) -> Response:
    run_all = _parse_run_all(request)
    batch = await incoming.read()
    assert isinstance(batch, JudgeBatch)
    if batch.is_single:
        return make_json_response(await _judge(dispatcher, incoming, batch.records[0], run_all=run_all))
    await dispatcher.admit(incoming.client)
    responses = _judge_all(dispatcher, incoming, batch.records, run_all=run_all)
    if JSON_LINES in request.headers.get("accept", ""):
        return JsonLinesResponse(responses)
    return make_json_response(b"[" + b",".join([response async for response in responses]) + b"]")


def _parse_run_all(request: Request) -> bool:
    """Parse the query parameter `run_all`. Raises MalformedRequest."""
    if unknown := [name for name in request.query_params if name != "run_all"]:
        raise MalformedRequest(f"unknown parameter {unknown[0][:80]!r} in the query; the only one is 'run_all'")
    value = request.query_params.get("run_all", "false").lower()
    if value not in _BOOLEANS:
        raise MalformedRequest(f"parameter 'run_all' must be true or false, not {value[:80]!r}")
    return _BOOLEANS[value]


async def _judge(
    dispatcher: DispatcherClient,
    incoming: IncomingRequest,
    record: BatchRecord,
    *,
    run_all: bool,
    is_admitted: bool = False,
) -> bytes:
    if isinstance(record.request, str):
        raise MalformedRequest(record.request)
    request = replace(record.request, run_all=True) if run_all else record.request
    judgement = await dispatcher.execute(incoming, request, is_admitted=is_admitted)
    return request_codec.encode(incoming.path, record.record_id, request, judgement)


async def _judge_all(
    dispatcher: DispatcherClient, incoming: IncomingRequest, records: Sequence[BatchRecord], *, run_all: bool
) -> AsyncGenerator[bytes]:
    """Yield the responses in order, each as soon as possible. Raises ClientDisconnected."""
    window = asyncio.Semaphore(_PREFETCH * dispatcher.workers)

    async def respond(index: int, record: BatchRecord) -> bytes:
        try:
            async with window:
                if incoming.get_disconnect_future().done():
                    raise ClientDisconnected
                return await _judge(dispatcher, incoming, record, run_all=run_all, is_admitted=True)
        except ServiceError as refusal:
            cause = "malformed record" if isinstance(refusal, MalformedRequest) else "sandbox"
            return json_codec.dumps({"index": index, "id": record.record_id, "error": f"{cause}: {refusal}"})

    tasks = [asyncio.create_task(respond(index, record)) for index, record in enumerate(records)]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
