"""The capacity of one coordinator:  python -m benchmarks.swarm.coordinator

A coordinator runs in a child process, with 1,000 joined nodes and a trainer that always has groups. The benchmark
measures the bound of cryptography on one core; the maximal rate of signed requests (heartbeats) over 16 connections;
the delay of 100 heartbeats per second, the load of 1,000 nodes, and their share of one core; and complete leases per
second, from /work to the verdict, with the ledger fsynced. Requests are signed beforehand. It writes
results/coordinator.json.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.machine import describe
from sandbox.service.listener import listen
from train.asynchronous.messages import (
    ACCEPTED,
    Heartbeat,
    HeartbeatResponse,
    Lease,
    LeaseRequest,
    LeaseResponse,
    ReleaseRequest,
    ResultStatus,
    SampleResult,
    SubmitRequest,
    pack_logprobs,
    pack_tokens,
)
from train.bounded_http import bounded_config
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import SamplingParams
from train.swarm.broadcast.manifest import LatestVersion
from train.swarm.broadcast.relay import RelayApp, RelayRateLimiter
from train.swarm.coordinator.app import CoordinatorApp
from train.swarm.coordinator.coordinator import Coordinator
from train.swarm.coordinator.intake import AnswerStore
from train.swarm.invites import Role, new_invite
from train.swarm.ledger import Ledger
from train.swarm.messages import (
    JoinRequest,
    VerificationResult,
)
from train.swarm.requests import check_signature, new_head, read_head, sign_request
from train.swarm.settings import SwarmSettings
from train.swarm.signatures import public_key_bytes
from train.weights.manifest import WeightManifest

RESULTS = Path(__file__).parents[1] / "results" / "coordinator.json"
RUN, RUN_KEY, START = "benchmark", Ed25519PrivateKey.from_private_bytes(b"r" * 32), b"thestart"
NODES, CONNECTIONS, REQUESTS, BEAT_SECONDS, BEATS_FOR_SECONDS, LEASES = 1000, 16, 10_000, 10.0, 30.0, 300
COMPLETIONS, TOKENS = 8, 500


def key_of(number: int) -> Ed25519PrivateKey:
    """Return the key of a node; the verifier's has the number NODES."""
    return Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))


class EndlessController:
    """A controller that always has groups."""

    def __init__(self) -> None:
        self._next, self._lock = 0, threading.Lock()

    def request_leases(self, request: LeaseRequest) -> LeaseResponse:
        with self._lock:
            group, self._next = self._next, self._next + 1
        seeds = tuple(range(group * COMPLETIONS, (group + 1) * COMPLETIONS))
        return LeaseResponse(
            (Lease(group, 0, 0, tuple(range(200)), seeds, SamplingParams(1.0, 1.0, TOKENS, logprobs=True), 600.0),)
        )

    def submit_results(self, answers: SubmitRequest) -> list[ResultStatus]:
        return ["taken"] * len(answers.answers)

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        return HeartbeatResponse()

    def wait_for_weights(self, after: int, wait_seconds: float) -> WeightManifest | None:
        return None

    def release(self, leaving: ReleaseRequest) -> None: ...


def beat_of(number: int) -> bytes:
    """Return the heartbeat of a node."""
    return msgspec.msgpack.encode(Heartbeat(public_key_bytes(key_of(number)).hex(), 0, ()))


def serve(folder: Path) -> None:
    """Run a coordinator with 1,000 joined nodes, and print its port."""
    terms = EngineSpec(RUN, "a-model", "transformers", 1024)
    settings = SwarmSettings(RUN, terms, 100_000)
    coordinator = Coordinator(
        settings, EndlessController(), RUN_KEY, Ledger(folder / "ledger.sqlite", RUN_KEY),
        AnswerStore(folder / "uploads"),
        latest=lambda: LatestVersion(RUN, 0, b"m" * 32, time.time()), fail=lambda error: sys.exit(str(error)),
    )  # fmt: skip
    for number in range(NODES + 1):
        role: Role = "verifier" if number == NODES else "node"
        invite = new_invite(RUN_KEY, run=RUN, coordinator="http://c", relays=(), role=role, seconds=3600)
        coordinator.join(public_key_bytes(key_of(number)), JoinRequest(invite.text.encode(), "transformers 5"))
    coordinator.start()
    files = RelayApp(folder, RelayRateLimiter(1e3, 1e9))
    app = CoordinatorApp(coordinator, RUN_KEY, start=START, files=files, page_token="x", calls_per_second=1e6)
    listener = listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    config = bounded_config(app, head_seconds=10, answer_seconds=60, keep_alive_seconds=60, stop_seconds=2)
    uvicorn.Server(config).run(sockets=[listener])


def request_of(number: int, path: str, body: bytes) -> bytes:
    """Return the bytes of a signed request."""
    key = key_of(number)
    headers = sign_request(new_head(path, RUN, public_key_bytes(key), body, START), key)
    lines = [f"POST {path} HTTP/1.1", "host: c", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode() + body


class Connection:
    """One connection that sends request after request."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def send(self, request: bytes) -> bytes:
        """Return the body of the reply."""
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
        body = await self._reader.readexactly(length)
        if not head.startswith(("http/1.1 200", "http/1.1 204")):
            raise RuntimeError(head + body.decode())
        return body


async def max_heartbeat_rate(port: int) -> dict[str, float]:
    """Return the maximal rate of heartbeats per second."""
    requests = [request_of(n % NODES, "/beat", beat_of(n % NODES)) for n in range(REQUESTS)]
    connections = [await Connection(port).open() for _ in range(CONNECTIONS)]

    async def work(connection: Connection) -> None:
        while requests:
            await connection.send(requests.pop())

    began = time.perf_counter()
    await asyncio.gather(*map(work, connections))
    return {"requests": REQUESTS, "per_second": REQUESTS / (time.perf_counter() - began)}


async def beats(port: int, process: int) -> dict[str, float]:
    """Return the delays of heartbeats at the rate of 1,000 nodes, and their share of a core."""
    pool: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(64):
        pool.put_nowait(await Connection(port).open())
    n = int(NODES * BEATS_FOR_SECONDS / BEAT_SECONDS)
    requests = [request_of(number % NODES, "/beat", beat_of(number % NODES)) for number in range(n)]
    seconds: list[float] = []

    async def beat(at: float, request: bytes) -> None:
        await asyncio.sleep(at)
        began = time.perf_counter()
        connection = await pool.get()
        await connection.send(request)
        pool.put_nowait(connection)
        seconds.append(time.perf_counter() - began)

    cpu = cpu_seconds(process)
    await asyncio.gather(*(beat(place * BEAT_SECONDS / NODES, request) for place, request in enumerate(requests)))
    share = (cpu_seconds(process) - cpu) / BEATS_FOR_SECONDS
    seconds.sort()
    return {
        "per_second": NODES / BEAT_SECONDS,
        "median_ms": statistics.median(seconds) * 1e3,
        "p99_ms": seconds[int(0.99 * len(seconds))] * 1e3,
        "share_of_a_core": share,
    }


async def whole_leases(port: int) -> dict[str, float]:
    """Return the leases per second from /work to the verdict."""
    connection = await Connection(port).open()
    tokens, logprobs = pack_tokens(range(TOKENS)), pack_logprobs([-1.0] * TOKENS)
    verified = SampleResult(0, 0, 0, tokens, logprobs, ((0, 0, TOKENS),), "length")
    result = msgspec.structs.replace(verified, commitments=bytes(2 * TOKENS))
    began = time.perf_counter()
    for number in range(LEASES):
        name = public_key_bytes(key_of(number)).hex()
        asked = await connection.send(request_of(number, "/work", msgspec.msgpack.encode(LeaseRequest(name, 0, 1))))
        [lease] = msgspec.msgpack.decode(asked, type=LeaseResponse).leases
        answers, sound = (
            tuple(msgspec.structs.replace(one, group=lease.group, number=n) for n in range(COMPLETIONS))
            for one in (result, verified)
        )
        body = msgspec.msgpack.encode(SubmitRequest(name, answers))
        verdict = msgspec.msgpack.encode(VerificationResult(ACCEPTED, sound))
        await connection.send(request_of(number, "/answers", body))
        await connection.send(request_of(NODES, "/job", b""))
        await connection.send(request_of(NODES, f"/file/{lease.group}", b""))
        await connection.send(request_of(NODES, f"/verdict/{lease.group}", verdict))
    return {"leases": LEASES, "per_second": LEASES / (time.perf_counter() - began), "file_bytes": len(body)}


def cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def cryptography_alone() -> dict[str, float]:
    """Return how many requests per second one core signs and verifies, digests included."""
    key, n, body = key_of(1), 2000, beat_of(1)
    began = time.perf_counter()
    signed = [sign_request(new_head("/beat", RUN, public_key_bytes(key), body, START), key) for _ in range(n)]
    middle = time.perf_counter()
    for headers in signed:
        check_signature(*read_head("/beat", headers))
        blake3(body).digest()
    end = time.perf_counter()
    return {"signed_per_second": n / (middle - began), "checked_per_second": n / (end - middle)}


def main() -> None:
    """Measure everything, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--serve", type=Path, help="internal: the folder of the coordinator")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.swarm.coordinator", "--serve", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                port = int(server.stdout.readline())
                measured: dict[str, Any] = {
                    "machine": describe(),
                    "nodes": NODES,
                    "connections": CONNECTIONS,
                    "cryptography": cryptography_alone(),
                    "fastest": asyncio.run(max_heartbeat_rate(port)),
                    "beats": asyncio.run(beats(port, server.pid)),
                    "leases": asyncio.run(whole_leases(port)),
                }
            finally:
                server.terminate()
    RESULTS.write_text(json.dumps(measured, indent=1) + "\n")
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
