"""Sending answers, and disconnecting clients that do not read them (see also bounded_http.py)."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sandbox.service.bounded_http import DISCONNECT
from sandbox.service.executor import RequestExecutor
from sandbox.service.request_body import IncomingRequest
from sandbox.service.service_errors import ClientDisconnected

JSON_LINES = "application/x-ndjson"
_CHUNK_BYTES = 256 * 1024
_MIN_BYTES_PER_SECOND = 1 << 20  # the least speed at which a client must read


class JsonResponse(Response):
    """A complete answer in JSON, sent in pieces. Its bytes count as held until the client has read all but the last
    piece. Raises TooManyRequests before anything is sent."""

    media_type = "application/json"

    def __init__(self, content: bytes, incoming: IncomingRequest, executor: RequestExecutor) -> None:
        super().__init__()
        self.headers["content-length"] = str(len(content))
        self._content = content
        self._client = incoming.client
        self._executor = executor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = len(self._content)
        self._executor.answers.acquire(self._client, size, size=size)
        try:
            async with asyncio.timeout(self._executor.settings.answer_seconds + size / _MIN_BYTES_PER_SECOND):
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                for start in range(0, max(size, 1), _CHUNK_BYTES):
                    end = start + _CHUNK_BYTES
                    piece = self._content[start:end]
                    await send({"type": "http.response.body", "body": piece, "more_body": end < size})
        except TimeoutError:
            await _disconnect(scope)
        finally:
            self._executor.answers.release(self._client, size)


class JsonLinesResponse(Response):
    """The answers of a batch, each sent as a line as soon as it is known."""

    media_type = JSON_LINES

    def __init__(self, answers: AsyncGenerator[bytes]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with suppress(ClientDisconnected):
            async with aclosing(self._answers) as answers:
                async for answer in answers:
                    await send({"type": "http.response.body", "body": answer + b"\n", "more_body": True})
            await send({"type": "http.response.body", "body": b""})


async def _disconnect(scope: Scope) -> None:
    scope["extensions"][DISCONNECT]["call"]()
    await asyncio.sleep(0)  # until the server has noticed
