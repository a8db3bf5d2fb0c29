"""Answers in JSON and in JSON Lines."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sandbox.service.service_errors import ClientDisconnected

JSON_LINES = "application/x-ndjson"


def json_response(content: bytes) -> Response:
    """Return an answer that is complete."""
    return Response(content, media_type="application/json")


class JsonLinesResponse(Response):
    """The answers of a batch, each sent as a line as soon as it is known."""

    media_type = JSON_LINES

    def __init__(self, answers: AsyncGenerator[bytes]) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})  # a proxy, too, is to send each at once
        del self.headers["content-length"]
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with suppress(ClientDisconnected):
            async with aclosing(self._answers) as answers:
                async for answer in answers:
                    await send({"type": "http.response.body", "body": answer + b"\n", "more_body": True})
            await send({"type": "http.response.body", "body": b""})
