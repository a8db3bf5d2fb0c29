"""The HTTP server of a relay, for three kinds of files.

    GET /runs/RUN/latest  /runs/RUN/VERSION/manifest  /runs/RUN/VERSION/NAME.safetensors[.delta]

A request may have a single byte range. Relays are untrusted and hold no secret. They answer 404 with Retry-After for a
missing file or range, and 429 to an address over its rate limit.
"""

import logging
import math
import os
import re
import signal
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox.service.listener import listen, raise_descriptor_limit
from train.bounded_http import build_bounded_config
from train.errors import ConfigError

log = logging.getLogger(__name__)

_MAX_ADDRESSES = 10_000  # with token buckets; the least recently used are dropped


@dataclass(slots=True)
class _Bucket:
    requests: float
    n_bytes: float
    at: float


class RelayRateLimiter:
    """Token buckets for requests and bytes, one pair for each address. Not thread-safe.

    requests_per_second, bytes_per_second  refill rates
    burst_seconds                          capacity of the buckets, in seconds of refill
    """

    def __init__(
        self, requests_per_second: float, bytes_per_second: float, *, burst_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._requests, self._bytes, self._burst = requests_per_second, bytes_per_second, burst_seconds
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_seconds(self, address: str, n_bytes: int) -> float:
        """Return 0 and charge a response of this size to an address, or return the seconds until it is allowed.

        A full bucket allows a larger response, after which its balance is negative.
        """
        now = self._clock()
        bucket = self._buckets.pop(address, None) or _Bucket(
            self._requests * self._burst, self._bytes * self._burst, now
        )
        self._buckets[address] = bucket
        if len(self._buckets) > _MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        passed, bucket.at = now - bucket.at, now
        bucket.requests = min(bucket.requests + passed * self._requests, max(1.0, self._requests * self._burst))
        bucket.n_bytes = min(bucket.n_bytes + passed * self._bytes, self._bytes * self._burst)
        needed = min(n_bytes, self._bytes * self._burst)
        wait = max((1 - bucket.requests) / self._requests, (needed - bucket.n_bytes) / self._bytes, 0.0)
        if wait == 0:
            bucket.requests -= 1
            bucket.n_bytes -= n_bytes
        return wait


_PATH = re.compile(
    r"/runs/(\w[\w.-]{0,99})/(?:latest|\d{1,9}/(?:manifest|\w[\w.-]{0,99}\.safetensors(\.delta)?))", re.ASCII
)
_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{1,15})", re.ASCII)
_LATEST = "/latest"
_IMMUTABLE = "public, max-age=31536000, immutable"
_CHUNK_BYTES = 2**18
_MAX_FILE_BYTES = 2**62


FindArriving = Callable[[str, int, int], Path | None]


class RelayApp:
    """The ASGI application.

    folder         holds `runs/...`
    find_arriving  Mirror.find_arriving, if a mirror fills the folder; None if all files are complete
    """

    def __init__(self, folder: Path, rates: RelayRateLimiter, find_arriving: FindArriving | None = None) -> None:
        self._folder, self._rates, self._find_arriving = folder, rates, find_arriving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._respond(scope)(scope, receive, send)

    def _respond(self, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("a relay only sends files\n", 405)
        path = scope["path"]
        if _PATH.fullmatch(path) is None:
            return PlainTextResponse("a relay has no such path\n", 404)
        requested = _RANGE.fullmatch(Headers(scope=scope).get("range", ""))
        start, stop = (int(requested[1]), int(requested[2]) + 1) if requested else (0, _MAX_FILE_BYTES)
        try:
            file = self._open(path[1:], start, stop)
        except OSError:
            return PlainTextResponse("the file or range has not arrived yet\n", 404, {"retry-after": "1"})
        size = os.fstat(file.fileno()).st_size
        stop = min(stop, size)
        if requested and start >= stop:
            file.close()
            return PlainTextResponse("the file has no such range\n", 416, {"content-range": f"bytes */{size}"})
        address = scope["client"][0] if scope.get("client") else ""
        if wait := self._rates.wait_seconds(address, stop - start):
            file.close()
            seconds = max(1, math.ceil(wait))
            return PlainTextResponse("this address exceeds the rate limit\n", 429, {"retry-after": str(seconds)})
        headers = {
            "accept-ranges": "bytes",
            "cache-control": "no-cache" if path.endswith(_LATEST) else _IMMUTABLE,
            "content-length": str(stop - start),
        } | ({"content-range": f"bytes {start}-{stop - 1}/{size}"} if requested else {})
        content = _read_chunks(file, start, stop if scope["method"] == "GET" else start)
        return StreamingResponse(content, 206 if requested else 200, headers, "application/octet-stream")

    def _open(self, path: str, start: int, stop: int) -> BinaryIO:
        """Open a file, or an incomplete one that has the range. Raises OSError if there is neither."""
        if self._find_arriving and (arriving := self._find_arriving(path, start, stop)):
            with suppress(OSError):  # it was completed meanwhile, and renamed
                return arriving.open("rb")
        return (self._folder / path).open("rb")


def _read_chunks(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while content := file.read(min(_CHUNK_BYTES, stop - start)):
            start += len(content)
            yield content


_HEAD_SECONDS, _RESPONSE_TIMEOUT_SECONDS, _KEEP_ALIVE_SECONDS, _STOP_SECONDS = 10.0, 60.0, 60, 2
_MAX_CONNECTIONS = 2048
_FOLLOWER_SECONDS = 5.0


def open_listener(address: str) -> socket.socket:
    """Return a listening socket for HOST:PORT; port 0 takes a free one. Raises ConfigError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--listen must be HOST:PORT, such as 0.0.0.0:8710, not {address}")
    try:
        return listen(host.removeprefix("[").removesuffix("]"), int(port))
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {error}. Choose another --listen.") from error


def format_listener_url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    app: ASGIApp,
    listener: socket.socket,
    background_loop: Callable[[threading.Event], None],
    on_ready: Callable[[], object],
) -> None:
    """Serve until SIGINT or SIGTERM.

    background_loop  runs in a thread until its event is set; its exception stops the server and is raised here
    on_ready         called before the server accepts connections
    """
    raise_descriptor_limit()
    config = build_bounded_config(
        app,
        head_seconds=_HEAD_SECONDS,
        response_seconds=_RESPONSE_TIMEOUT_SECONDS,
        keep_alive_seconds=_KEEP_ALIVE_SECONDS,
        stop_seconds=_STOP_SECONDS,
        max_connections=_MAX_CONNECTIONS,
    )
    server, stop = uvicorn.Server(config), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn re-raises signals; exit with status 0 instead
        signal.signal(number, server.handle_exit)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            background_loop(stop)
        except BaseException as error:  # the main thread raises it
            errors.append(error)
            server.should_exit = True

    follower = threading.Thread(target=run, name="follower", daemon=True)
    follower.start()
    try:
        on_ready()
        server.run(sockets=[listener])
    finally:
        stop.set()
        listener.close()
        follower.join(_FOLLOWER_SECONDS)
    if errors:
        raise errors[0]
