"""POST /run_code, compatible with SandboxFusion; POST /run and /judge_suite, whose answers are complete and exact."""

from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sandbox.service import request_codec
from sandbox.service.dispatcher_client import DispatcherClient
from sandbox.service.request_body import IncomingRequest
from sandbox.service.request_codec import JudgeBatch
from sandbox.service.responses import json_response
from sandbox.service.service_errors import SandboxFailed, ShuttingDown


async def run_code(dispatcher: DispatcherClient, incoming: IncomingRequest, request: Request) -> Response:
    try:
        return await _answer(dispatcher, incoming, incoming.settings.queue_timeout_seconds)
    except (SandboxFailed, ShuttingDown) as refusal:
        refusal.status = HTTPStatus.GATEWAY_TIMEOUT  # see sandboxfusion.py
        raise


async def run(dispatcher: DispatcherClient, incoming: IncomingRequest, request: Request) -> Response:
    """Answer /run and /judge_suite alike: the parsed request says which of the two it is."""
    return await _answer(dispatcher, incoming)


async def _answer(
    dispatcher: DispatcherClient, incoming: IncomingRequest, patience_seconds: float | None = None
) -> Response:
    parsed = await incoming.read()
    assert not isinstance(parsed, JudgeBatch)
    result: Any = await dispatcher.execute(incoming, parsed, patience_seconds=patience_seconds)
    return json_response(request_codec.encode(incoming.path, None, parsed, result))
