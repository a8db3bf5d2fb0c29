"""Responses in JSON and in JSON Lines."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sandbox.service.service_errors import ClientDisconnected

JSON_LINES = "application/x-ndjson"


def make_json_response(content: bytes) -> Response:
    """Return a response with this JSON."""
    return Response(content, media_type="application/json")


class JsonLinesResponse(Response):
    """A stream of JSON lines, each sent immediately."""

    media_type = JSON_LINES

    def __init__(self, responses: AsyncGenerator[bytes]) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})  # disables buffering in nginx
        del self.headers["content-length"]
        self._responses = responses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with suppress(ClientDisconnected):
            async with aclosing(self._responses) as responses:
                async for response in responses:
                    await send({"type": "http.response.body", "body": response + b"\n", "more_body": True})
            await send({"type": "http.response.body", "body": b""})
