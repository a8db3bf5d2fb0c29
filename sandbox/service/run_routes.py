"""POST /run_code, compatible with SandboxFusion; POST /run and /judge_suite, whose answers are complete and exact."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from sandbox.service.executor import RequestExecutor
from sandbox.service.request_body import IncomingRequest
from sandbox.service.request_codec import JudgeBatch
from sandbox.service.responses import JsonResponse
from sandbox.service.service_errors import SandboxFailed, ShuttingDown


async def run_code(executor: RequestExecutor, incoming: IncomingRequest, request: Request) -> Response:
    try:
        return await _answer(executor, incoming, patience_seconds=executor.settings.queue_timeout_seconds)
    except (SandboxFailed, ShuttingDown) as refusal:
        refusal.status = HTTPStatus.GATEWAY_TIMEOUT  # see sandboxfusion.py
        raise


async def run(executor: RequestExecutor, incoming: IncomingRequest, request: Request) -> Response:
    """Answer /run and /judge_suite alike: the parsed request says which of the two it is."""
    return await _answer(executor, incoming)


async def _answer(
    executor: RequestExecutor, incoming: IncomingRequest, patience_seconds: float | None = None
) -> Response:
    parsed = await incoming.read()
    assert not isinstance(parsed, JudgeBatch)
    answer = await executor.execute_queued(incoming, parsed, timeout_seconds=patience_seconds)
    return JsonResponse(answer, incoming, executor)
