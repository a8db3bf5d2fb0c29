"""The HTTP server of a relay, for the signed weights of runs.

    GET /runs/RUN/latest  /runs/RUN/VERSION/manifest  /runs/RUN/VERSION/NAME.safetensors[.delta]

A request may have a single byte range. Relays are untrusted and hold no secret. They return 404 with Retry-After for a
missing file or range, and 429 to an address that exceeds its rate limit.
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

_MAX_ADDRESSES = 10_000  # addresses with token buckets; the least recently used ones are evicted


@dataclass(slots=True)
class _Buckets:
    requests: float
    n_bytes: float
    updated_at: float


class RelayRateLimiter:
    """Token buckets for requests and bytes, one pair for each address. Not thread-safe.

    requests_per_second, bytes_per_second  refill rates
    burst_seconds                          capacity of the buckets, as the time to refill them
    """

    def __init__(
        self, requests_per_second: float, bytes_per_second: float, *, burst_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._requests, self._bytes, self._burst = requests_per_second, bytes_per_second, burst_seconds
        self._clock = clock
        self._buckets: OrderedDict[str, _Buckets] = OrderedDict()

    def try_charge(self, address: str, n_bytes: int) -> float:
        """Charge a response of `n_bytes` to an address, and return 0. Without enough tokens, return seconds to wait.

        A full bucket suffices for a larger response, after which its balance is negative.
        """
        now = self._clock()
        buckets = self._buckets.pop(address, None) or _Buckets(
            self._requests * self._burst, self._bytes * self._burst, now
        )
        self._buckets[address] = buckets
        if len(self._buckets) > _MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        passed, buckets.updated_at = now - buckets.updated_at, now
        buckets.requests = min(buckets.requests + passed * self._requests, max(1.0, self._requests * self._burst))
        buckets.n_bytes = min(buckets.n_bytes + passed * self._bytes, self._bytes * self._burst)
        needed = min(n_bytes, self._bytes * self._burst)
        wait = max((1 - buckets.requests) / self._requests, (needed - buckets.n_bytes) / self._bytes, 0.0)
        if wait == 0:
            buckets.requests -= 1
            buckets.n_bytes -= n_bytes
        return wait


_PATH = re.compile(
    r"/runs/(\w[\w.-]{0,99})/(?:latest|\d{1,9}/(?:manifest|\w[\w.-]{0,99}\.safetensors(\.delta)?))", re.ASCII
)
_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{1,15})", re.ASCII)
_LATEST = "/latest"
_IMMUTABLE = "public, max-age=31536000, immutable"
_CHUNK_BYTES = 2**18
_MAX_FILE_BYTES = 2**62


FindPartialFile = Callable[[str, int, int], Path | None]


class RelayApp:
    """The ASGI application of a relay.

    folder             folder of `runs/...`
    find_partial_file  Mirror.find_partial_file, if a mirror fills the folder; None if all files are complete
    """

    def __init__(self, folder: Path, rates: RelayRateLimiter, find_partial_file: FindPartialFile | None = None) -> None:
        self._folder, self._rates, self._find_partial_file = folder, rates, find_partial_file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._respond(scope)(scope, receive, send)

    def _respond(self, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("a relay accepts only GET and HEAD\n", 405)
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
        if wait := self._rates.try_charge(address, stop - start):
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
        """Open a file, or a partial file that contains the range. Raises OSError if there is neither."""
        if self._find_partial_file and (partial_file := self._find_partial_file(path, start, stop)):
            with suppress(OSError):  # the file has been completed and renamed
                return partial_file.open("rb")
        return (self._folder / path).open("rb")


def _read_chunks(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while content := file.read(min(_CHUNK_BYTES, stop - start)):
            start += len(content)
            yield content


_HEAD_SECONDS, _RESPONSE_TIMEOUT_SECONDS, _KEEP_ALIVE_SECONDS, _STOP_SECONDS = 10.0, 60.0, 60, 2
_MAX_CONNECTIONS = 2048
_JOIN_SECONDS = 5.0


def open_listener(address: str) -> socket.socket:
    """Return a socket that listens on HOST:PORT; port 0: any free port. Raises ConfigError."""
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

    background_loop  function to run in a thread until its event is set; if it raises, `serve` stops and raises the same
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
    for number in (signal.SIGINT, signal.SIGTERM):  # so the process exits with status 0: uvicorn re-raises signals
        signal.signal(number, server.handle_exit)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            background_loop(stop)
        except BaseException as error:  # `serve` raises it in the main thread
            errors.append(error)
            server.should_exit = True

    thread = threading.Thread(target=run, name="background loop", daemon=True)
    thread.start()
    try:
        on_ready()
        server.run(sockets=[listener])
    finally:
        stop.set()
        listener.close()
        thread.join(_JOIN_SECONDS)
    if errors:
        raise errors[0]
