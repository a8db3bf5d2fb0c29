"""POST /run_code, compatible with SandboxFusion; POST /run and /judge_suite, whose answers are complete and exact."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from sandbox.service.executor import Executor
from sandbox.service.refusals import Failed, Stopping
from sandbox.service.request_body import IncomingRequest
from sandbox.service.sending import JsonAnswer
from sandbox.service.translation import Batch


async def run_code(executor: Executor, incoming: IncomingRequest, request: Request) -> Response:
    try:
        return await _answer(executor, incoming, patience_seconds=executor.settings.patience_seconds)
    except (Failed, Stopping) as refusal:
        refusal.status = HTTPStatus.GATEWAY_TIMEOUT  # see sandboxfusion.py
        raise


async def run(executor: Executor, incoming: IncomingRequest, request: Request) -> Response:
    """Answer /run and /judge_suite alike: the parsed request says which of the two it is."""
    return await _answer(executor, incoming)


async def _answer(executor: Executor, incoming: IncomingRequest, patience_seconds: float | None = None) -> Response:
    parsed = await incoming.read()
    assert not isinstance(parsed, Batch)
    answer = await executor.in_turn(incoming, parsed, patience_seconds=patience_seconds)
    return JsonAnswer(answer, incoming, executor)
