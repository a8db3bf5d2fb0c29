"""The HTTP server of a relay: three kinds of files, and nothing else.

    GET /runs/RUN/latest  /runs/RUN/VERSION/manifest  /runs/RUN/VERSION/NNNNN

A relay holds no secret, and nothing that it sends is believed. What is not there yet is answered 404 with Retry-After,
and an address that asks for too much 429.
"""

import re
from pathlib import Path

from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from train.swarm.broadcast.rate_limiter import RelayRateLimiter, retry_after

_PATH = re.compile(r"/runs/(\w[\w.-]{0,99})/(?:latest|(\d{1,9})/(?:manifest|\d{5}))", re.ASCII)
_LATEST = "/latest"
_IMMUTABLE = "public, max-age=31536000, immutable"
_CHUNK_BYTES = 2**18


class _Sent(FileResponse):
    chunk_size = _CHUNK_BYTES


class RelayApp:
    """The ASGI application.

    folder  holds `runs/...`
    """

    def __init__(self, folder: Path, rates: RelayRateLimiter) -> None:
        self._folder, self._rates = folder, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("a relay only sends files\n", 405)
        path = scope["path"]
        if _PATH.fullmatch(path) is None:
            return PlainTextResponse("a relay has no such path\n", 404)
        file = self._folder / path[1:]
        try:
            status = file.stat()
        except OSError:
            return PlainTextResponse("it is not here yet\n", 404, {"retry-after": "1"})
        address = scope["client"][0] if scope.get("client") else ""
        wait = self._rates.wait_seconds(address, status.st_size)
        if wait:
            return PlainTextResponse("too much for one address\n", 429, {"retry-after": retry_after(wait)})
        kept = "no-cache" if path.endswith(_LATEST) else _IMMUTABLE
        return _Sent(file, media_type="application/octet-stream", headers={"cache-control": kept}, stat_result=status)
