"""The speed of weights through throttled relays:  python -m benchmarks.swarm.broadcast [PYTHON]

A client fetches 256 MB in shards of 8 MiB from relays of 20, 40 and 80 MB/s: from all three, from the fastest alone,
and with one of them corrupt. With the PYTHON of another environment, shardcast fetches the same bytes:

    python -m venv sc && sc/bin/pip install shardcast==0.3.2
    python -m benchmarks.swarm.broadcast sc/bin/python
"""

import asyncio
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchmarks.record import ROOT, describe_machine, save_results
from train.swarm.broadcast.origin import Origin
from train.swarm.broadcast.relay import RelayApp, RelayRateLimiter, format_listener_url, serve
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.broadcast.relay_source import VersionStore
from train.swarm.signatures import public_key_bytes
from train.weights.manifest import WeightFile, WeightManifest

RUN, KEY = "benchmark", Ed25519PrivateKey.from_private_bytes(bytes(32))
SIZE, SPEEDS, SHARD_BYTES = 256_000_000, (20, 40, 80), 8 * 2**20
_ROUNDS = 5
_SECONDS = 120
_BURST_SECONDS = 0.02  # capacity of a relay's token bucket
_SHARD = re.compile(r".*/(shard_\d{5}\.bin|.*\.safetensors)")

OURS = "from benchmarks.swarm.broadcast import fetch; fetch()"
_RELAY = "from benchmarks.swarm.broadcast import run_relay; run_relay()"
_SHARDCAST = """
import json, logging, sys, time
from shardcast.client_node import ClientNode
logging.disable(logging.CRITICAL)
options = json.loads(sys.argv[1])
client = ClientNode(options["urls"], options["folder"])
began = time.monotonic()
found = client.download_version("v1")
print(time.monotonic() - began if found else "failed")
"""


def publish_random(folder: Path, size: int, shard_bytes: int) -> bytes:
    """Publish random bytes as a version, and return them."""
    (folder / "weights").mkdir(parents=True)
    content = random.Random(0).randbytes(size)
    (folder / "weights" / "w.safetensors").write_bytes(content)
    files = (WeightFile("w.safetensors", size, blake3(content).hexdigest()),)
    origin = Origin(f"file://{folder / 'store'}", RUN, KEY, shard_bytes=shard_bytes)
    origin.publish(WeightManifest(0, files=files), folder / "weights")
    return content


def write_shardcast_origin(folder: Path, content: bytes, shard_bytes: int) -> None:
    version = folder / "v1"
    version.mkdir(parents=True)
    shards = [content[start : start + shard_bytes] for start in range(0, len(content), shard_bytes)]
    for number, shard in enumerate(shards, 1):
        (version / f"shard_{number:05d}.bin").write_bytes(shard)
    (folder / "distribution.txt").write_text(f"v1: {blake3(content).hexdigest()}|{len(shards)}\n")
    (folder / "data1.bin").write_bytes(bytes(2**20))  # shardcast measures the speed of servers with this file


@contextmanager
def start_relay(options: dict[str, Any]) -> Iterator[str]:
    """Start a throttled relay in a child process, and yield its URL."""
    command = [sys.executable, "-c", _RELAY, json.dumps(options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def run_relay() -> None:
    """Serve as a relay, and print the URL. The first argument is a JSON object.

    folder                of the relay
    other                 folder of files for other clients, below the path /other
    megabytes_per_second  sending speed
    corrupt               whether the relay sends wrong bytes
    """
    options = json.loads(sys.argv[1])
    folder = Path(options["folder"])
    files = Mount("/", RelayApp(folder, RelayRateLimiter(1e6, 1e12)))
    other = Mount("/other", StaticFiles(directory=options.get("other", folder)))
    rate, is_corrupt = options["megabytes_per_second"] * 1e6, options.get("corrupt", False)
    app = ThrottledApp(Starlette(routes=[other, files]), rate, is_corrupt=is_corrupt)
    listener = socket.create_server(("127.0.0.1", 0))

    def wait(stop: threading.Event) -> None:
        stop.wait()

    serve(app, listener, wait, lambda: print(format_listener_url(listener), flush=True))


class ThrottledApp:
    """An ASGI application with limited sending speed.

    is_corrupt: flip a bit in each message of a shard
    """

    def __init__(self, app: ASGIApp, bytes_per_second: float, *, is_corrupt: bool) -> None:
        self._app, self._rate, self._is_corrupt = app, bytes_per_second, is_corrupt
        self._free_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        flips_bit = self._is_corrupt and _SHARD.fullmatch(scope["path"]) is not None

        async def send_slowly(message: Message) -> None:
            if body := message.get("body", b""):
                now = time.monotonic()
                self._free_at = max(self._free_at, now - _BURST_SECONDS) + len(body) / self._rate
                await asyncio.sleep(max(0.0, self._free_at - now))
                if flips_bit:
                    message = {**message, "body": bytes([body[0] ^ 1]) + body[1:]}
            await send(message)

        await self._app(scope, receive, send_slowly)


def time_client(python: str, program: str, urls: list[str]) -> float | None:
    """Run a client in a child process. Return its seconds; None if it fails to fetch the weights."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-c", program, json.dumps({"urls": urls, "folder": folder})]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=2 * _SECONDS, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
        last = done.stdout.strip().splitlines()[-1]
        return None if last == "failed" else float(last)


def fetch() -> None:
    """Fetch the newest version with the options in the first argument, as JSON, and print the seconds."""
    options = json.loads(sys.argv[1])
    download = RelayClient(RelaySelector(options["urls"]), RUN, public_key_bytes(KEY))
    began = time.monotonic()
    version = download.fetch_latest().version
    VersionStore(Path(options["folder"]), download).fetch(version, seconds=_SECONDS)
    print(time.monotonic() - began)


def summarize(seconds: list[float | None], ideal: float) -> dict[str, Any]:
    """Return the median, and the share of the ideal bandwidth (MB/s) that it uses."""
    done = [each for each in seconds if each is not None]
    if len(done) < len(seconds):
        return {"failed": len(seconds) - len(done), "of": len(seconds)}
    median = statistics.median(done)
    return {"seconds": done, "median_seconds": median, "share_of_ideal": SIZE / 1e6 / median / ideal, "ideal": ideal}


def measure_three_relays(folder: Path, shardcast: str | None) -> dict[str, Any]:
    content = publish_random(folder, SIZE, SHARD_BYTES)
    layouts = {"shards of 50 MB": 50_000_000, "shards of 8 MiB": SHARD_BYTES}
    for number, size in enumerate(layouts.values()):
        write_shardcast_origin(folder / "other" / str(number), content, size)
    found: dict[str, Any] = {}
    for case, corrupt in (("honest", None), ("40 MB/s corrupt", 40), ("80 MB/s corrupt", 80)):
        ideal = float(sum(speed for speed in SPEEDS if speed != corrupt))
        with ExitStack() as stack:
            common = {"folder": str(folder / "store"), "other": str(folder / "other")}
            urls = [
                stack.enter_context(start_relay({**common, "megabytes_per_second": speed, "corrupt": speed == corrupt}))
                for speed in SPEEDS
            ]
            clients = {"ours": (sys.executable, OURS, urls, ideal)}
            if case == "honest":
                clients["ours, fastest alone"] = (sys.executable, OURS, urls[-1:], float(SPEEDS[-1]))
            if shardcast and corrupt != 80:
                for number, name in enumerate(layouts):
                    theirs = [f"{url}/other/{number}" for url in urls]
                    clients[f"shardcast, {name}"] = (shardcast, _SHARDCAST, theirs, ideal)
            # Each round has all clients, so that other load affects them alike.
            rounds = [{name: time_client(*client[:3]) for name, client in clients.items()} for _ in range(_ROUNDS)]
        found[case] = {
            name: summarize([seconds[name] for seconds in rounds], best) for name, (*_, best) in clients.items()
        }
        print(json.dumps(found[case], indent=1), flush=True)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        three = measure_three_relays(Path(name), sys.argv[1] if len(sys.argv) > 1 else None)
    results = {"machine": describe_machine(), "megabytes": SIZE / 1e6, "rounds": _ROUNDS, "three": three}
    save_results("broadcast", results)


if __name__ == "__main__":
    main()
