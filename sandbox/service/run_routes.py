"""POST /run_code, as SandboxFusion; POST /run and /judge_suite, whose answers lose and round nothing."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from sandbox.service.executor import Work
from sandbox.service.refusals import Failed, Stopping
from sandbox.service.request_body import Asking
from sandbox.service.sending import Whole
from sandbox.service.translation import Batch


async def run_code(work: Work, asking: Asking, request: Request) -> Response:
    try:
        return await _answer(work, asking, patience=work.settings.patience_seconds)
    except (Failed, Stopping) as refusal:
        refusal.status = HTTPStatus.GATEWAY_TIMEOUT  # see sandboxfusion.py
        raise


async def run(work: Work, asking: Asking, request: Request) -> Response:
    """Also of suites: the request says which."""
    return await _answer(work, asking)


async def _answer(work: Work, asking: Asking, patience: float | None = None) -> Response:
    asked = await asking.read()
    assert not isinstance(asked, Batch)
    return Whole(await work.in_turn(asking, asked, patience=patience), asking, work)
