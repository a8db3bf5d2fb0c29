"""A relay with limited bandwidth:  python -m benchmarks.swarm.throttled_relay OPTIONS

OPTIONS is a JSON object; see `start_relay` in broadcast.py. A token bucket limits the relay's total rate. The relay
prints its URL, and serves files under `other/` to third-party clients such as shardcast.
"""

import asyncio
import json
import re
import socket
import sys
import threading
import time
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from train.swarm.broadcast.relay import RelayApp, RelayRateLimiter, format_listener_url, serve

_SHARD = re.compile(r".*/(shard_\d{5}\.bin|.*\.safetensors)")
_BURST_SECONDS = 0.02


class ThrottledApp:
    """An ASGI application with limited sending speed.

    corrupt: flip a bit in each message of a shard
    """

    def __init__(self, app: ASGIApp, bytes_per_second: float, *, corrupt: bool) -> None:
        self._app, self._rate, self._corrupt = app, bytes_per_second, corrupt
        self._free_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        corrupts = self._corrupt and _SHARD.fullmatch(scope["path"]) is not None

        async def send_slowly(message: Message) -> None:
            body = message.get("body", b"")
            if body:
                now = time.monotonic()
                self._free_at = max(self._free_at, now - _BURST_SECONDS) + len(body) / self._rate
                if self._free_at > now:
                    await asyncio.sleep(self._free_at - now)
                if corrupts:
                    message = {**message, "body": bytes([body[0] ^ 1]) + body[1:]}
            await send(message)

        await self._app(scope, receive, send_slowly)


def main() -> None:
    options = json.loads(sys.argv[1])
    folder = Path(options["folder"])
    files = RelayApp(folder, RelayRateLimiter(1e6, 1e12))
    others = Mount("/other", StaticFiles(directory=options["other"])) if "other" in options else None
    app: ASGIApp = Starlette(routes=[others, Mount("/", files)]) if others else files
    throttled = ThrottledApp(app, options["megabytes_per_second"] * 1e6, corrupt=options.get("corrupt", False))
    listener = socket.create_server(("127.0.0.1", 0))

    def wait(stop: threading.Event) -> None:
        stop.wait()

    serve(throttled, listener, wait, lambda: print(format_listener_url(listener), flush=True))


if __name__ == "__main__":
    main()
