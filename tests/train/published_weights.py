"""Versions that an origin has published to a folder, and servers that pass them on, honest and not."""

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import uvicorn
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.types import ASGIApp

from sandbox.service.listener import listen
from train.bounded_http import build_bounded_config
from train.swarm.broadcast.manifest import LatestVersion, sign_latest
from train.swarm.broadcast.origin import Origin
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.signatures import public_key_bytes
from train.weights.manifest import WeightFile, WeightManifest

RUN = "coder"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = public_key_bytes(KEY)
SHARD_BYTES = 10_000

# What a server makes of a request: it gets the path and the honest content, or its range, and writes an answer.
Behaviour = Callable[[BaseHTTPRequestHandler, bytes | None], None]


def weights(folder: Path, version: int, *, changed_share: float = 0.03) -> WeightManifest:
    """Write the files of a version, which differ a little from those of the version before."""
    files = []
    place = folder / str(version)
    place.mkdir(parents=True)
    for name, n_words in (("model-00000.safetensors", 60_000), ("model-00001.safetensors", 7_001)):
        words = np.random.default_rng(0).integers(0, 2**16, n_words).astype(np.uint16)
        for number in range(1, version + 1):
            rng = np.random.default_rng(number)
            words[rng.random(n_words) < changed_share] ^= 1
        content = words.tobytes()
        (place / name).write_bytes(content)
        files.append(WeightFile(name, len(content), blake3(content).hexdigest()))
    return WeightManifest(version, files=tuple(files))


def publish(folder: Path, versions: range, *, changed_share: float = 0.03, full_version_interval: int = 10) -> Origin:
    """Publish versions to FOLDER/public; their files are in FOLDER/weights."""
    origin = Origin(
        f"file://{folder / 'public'}", RUN, KEY, shard_bytes=SHARD_BYTES, full_version_interval=full_version_interval
    )
    for version in versions:
        made = weights(folder / "weights", version, changed_share=changed_share)
        origin.publish(made, folder / "weights" / str(version))
    return origin


def honest(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Send what is there."""
    if content is None:
        handler.send_response(404)
        handler.send_header("content-length", "0")
        handler.end_headers()
        return
    handler.send_response(_status(handler))
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def serving(app: ASGIApp) -> Iterator[int]:
    """Serve an application as a relay does, and yield the port."""
    listener = listen("127.0.0.1", 0)
    config = build_bounded_config(app, head_seconds=10, response_seconds=10, keep_alive_seconds=10, stop_seconds=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@contextmanager
def relay(folder: Path, behaviour: Behaviour = honest) -> Iterator[str]:
    """Serve FOLDER/public, and yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = folder / "public" / self.path.lstrip("/")
            content = path.read_bytes() if path.is_file() else None
            self.whole = content
            if content is not None and (asked := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))):
                content = content[int(asked[1]) : int(asked[2]) + 1]
            try:
                behaviour(self, content)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def download(*urls: str, seed: int = 0) -> RelayClient:
    return RelayClient(RelaySelector(urls, min_seconds=1.0, rng=random.Random(seed)), RUN, PUBLIC)


def corrupting(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Change one byte of every shard."""
    if content is not None and is_shard(handler):
        content = content[:-1] + bytes([content[-1] ^ 1])
    honest(handler, content)


def truncating(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Promise everything, and hang up half-way."""
    if content is None or not is_shard(handler):
        return honest(handler, content)
    handler.send_response(_status(handler))
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.close_connection = True
    return None


def endless(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Never stop sending."""
    handler.send_response(_status(handler))
    handler.end_headers()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        handler.wfile.write(b"\0" * 65536)


def trickling(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Send a byte now and then."""
    if content is None or not is_shard(handler):
        return honest(handler, content)
    handler.send_response(_status(handler))
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    for byte in content:
        handler.wfile.write(bytes([byte]))
        time.sleep(0.05)
    return None


def busy(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Always have too much to do."""
    handler.send_response(503)
    handler.send_header("retry-after", "1")
    handler.send_header("content-length", "0")
    handler.end_headers()


def redirecting(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Send clients elsewhere."""
    handler.send_response(302)
    handler.send_header("location", "http://127.0.0.1:9/")
    handler.send_header("content-length", "0")
    handler.end_headers()


def stalling(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Take the question, and say nothing until the client hangs up."""
    handler.connection.settimeout(20)
    handler.connection.recv(1)
    handler.close_connection = True


def dripping(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Send a head that never ends, one byte at a time."""
    _drip(handler, f"HTTP/1.1 {_status(handler)} OK\r\nx-padding: ".encode())


def dripping_chunks(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Promise chunks, and send the length of the first one without end."""
    handler.wfile.write(f"HTTP/1.1 {_status(handler)} OK\r\ntransfer-encoding: chunked\r\n\r\n".encode())
    _drip(handler, b"")


def continuing(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Announce an answer again and again."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.01)


def longer(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Send some bytes more than there are."""
    honest(handler, content if content is None or not is_shard(handler) else content + b"more")


def shorter(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Send less than there is, as if it were all."""
    honest(handler, content if content is None or not is_shard(handler) else content[:-1])


def empty(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Send nothing, as if it were all."""
    honest(handler, b"")


def senseless(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Send a length that is none."""
    head = f"HTTP/1.1 {_status(handler)} OK\r\ncontent-length: -5\r\ncontent-length: 7\r\n\r\n"
    handler.wfile.write(head.encode() + b"abc")
    handler.close_connection = True


def limiting(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Say that it is too much, always, and ask to be left alone for a year."""
    handler.send_response(429)
    handler.send_header("retry-after", "31536000")
    handler.send_header("content-length", "0")
    handler.end_headers()


def forging(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Name a version that does not exist, with a key of its own."""
    latest = LatestVersion(RUN, 99, bytes(32), 2e9)
    is_latest = handler.path.endswith("/latest")
    honest(handler, sign_latest(latest, Ed25519PrivateKey.from_private_bytes(bytes(32))) if is_latest else content)


def ignoring_ranges(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Answer as if all had been asked for."""
    del handler.headers["range"]
    honest(handler, handler.whole)  # type: ignore[attr-defined]


def lacking(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Name the newest version, and have none of it."""
    honest(handler, content if handler.path.endswith("/latest") else None)


def slow(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Send everything, and take a fifth of a second for each shard."""
    if content is not None and is_shard(handler):
        time.sleep(0.2)
    honest(handler, content)


def hanging_up(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
    """Hang up on everybody who asks for a shard."""
    if content is not None and is_shard(handler):
        handler.close_connection = True
    else:
        honest(handler, content)


def serial(seconds: float) -> Behaviour:
    """Return the behaviour of a relay that sends one shard after another, and needs so long for each."""
    line = threading.Lock()

    def one_by_one(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
        if content is not None and is_shard(handler):
            with line:
                time.sleep(seconds)
        honest(handler, content)

    return one_by_one


def counting(behaviour: Behaviour, paths: list[str]) -> Behaviour:
    """Return the same behaviour, with the paths and ranges of the shards that were asked for in a list."""

    def counted(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
        if is_shard(handler):
            paths.append(f"{handler.path} {handler.headers['range']}")
        behaviour(handler, content)

    return counted


def _drip(handler: BaseHTTPRequestHandler, first: bytes) -> None:
    handler.wfile.write(first)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        handler.wfile.write(b"0")
        time.sleep(0.05)


def is_shard(handler: BaseHTTPRequestHandler) -> bool:
    """Return whether a request is for a part of a file."""
    return "range" in handler.headers


def _status(handler: BaseHTTPRequestHandler) -> int:
    return 206 if is_shard(handler) else 200
