"""POST /run_code, as SandboxFusion; POST /run and /judge_suite, whose answers lose and round nothing."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from sandbox import messages
from sandbox.messages import JudgeRequest, RunRequest
from sandbox.service import bounds, fusion
from sandbox.service.answers import Failed, Stopping
from sandbox.service.asking import Asking
from sandbox.service.work import Work, malformed


async def run_code(work: Work, asking: Asking, request: Request) -> Response:
    raw = await asking.json()
    with malformed():
        program, invocation, limits = fusion.parse(raw)
        bounds.check(limits)

    def call() -> bytes:
        return messages.dumps(fusion.response(program, limits, work.run(program, invocation, limits)))

    try:
        answer = await work.in_turn(asking, call, patience=asking.settings.patience_seconds)
    except (Failed, Stopping) as refusal:
        refusal.status = HTTPStatus.GATEWAY_TIMEOUT  # see fusion.py
        raise
    return Response(answer, media_type="application/json")


async def run(work: Work, asking: Asking, request: Request) -> Response:
    raw = await asking.json()
    with malformed():
        asked = messages.decode(RunRequest, raw)
        bounds.check(asked.limits)

    def call() -> bytes:
        return messages.dumps(work.run(asked.program, asked.invocation, asked.limits))

    return Response(await work.in_turn(asking, call), media_type="application/json")


async def judge_suite(work: Work, asking: Asking, request: Request) -> Response:
    raw = await asking.json()
    with malformed():
        asked = messages.decode(JudgeRequest, raw)
        bounds.check(asked.suite.limits)

    def call() -> bytes:
        return messages.dumps(work.judge(asked.program, asked.suite, run_all=asked.run_all))

    return Response(await work.in_turn(asking, call), media_type="application/json")
