"""The capacity of one coordinator:  python -m benchmarks.swarm.coordinator

A child process runs a coordinator with 1,000 joined nodes and a controller that always has groups. Measurements: the
maximal rate of signed heartbeats over 16 connections, and leases per second from /work to the verdict. Requests are
signed beforehand.
"""

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.record import describe_machine, save_results
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
from train.bounded_http import build_bounded_config
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import SamplingParams
from train.swarm.broadcast.manifest import LatestVersion
from train.swarm.broadcast.relay import RelayApp, RelayRateLimiter
from train.swarm.coordinator.app import CoordinatorApp
from train.swarm.coordinator.coordinator import Coordinator
from train.swarm.coordinator.intake import ResultStore
from train.swarm.invites import Role, create_invite
from train.swarm.ledger import Ledger
from train.swarm.messages import JoinRequest, VerificationResult
from train.swarm.requests import create_head, sign_request
from train.swarm.settings import SwarmSettings
from train.swarm.signatures import public_key_bytes
from train.weights.manifest import WeightManifest

RUN, RUN_KEY, START = "benchmark", Ed25519PrivateKey.from_private_bytes(b"r" * 32), b"thestart"
NODES, CONNECTIONS, REQUESTS, LEASES = 1000, 16, 10_000, 300
COMPLETIONS, TOKENS = 8, 500


def derive_node_key(number: int) -> Ed25519PrivateKey:
    """Return the key of node `number`; number NODES is the verifier."""
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

    def submit_results(self, request: SubmitRequest) -> list[ResultStatus]:
        return ["taken"] * len(request.results)

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        return HeartbeatResponse()

    def wait_for_weights(self, after: int, wait_seconds: float) -> WeightManifest | None:
        return None

    def release(self, leaving: ReleaseRequest) -> None: ...


def encode_heartbeat(number: int) -> bytes:
    return msgspec.msgpack.encode(Heartbeat(public_key_bytes(derive_node_key(number)).hex(), 0, ()))


def serve(folder: Path) -> None:
    """Run a coordinator with 1,000 joined nodes, and print its port."""
    terms = EngineSpec(RUN, "a-model", "transformers", 1024)
    settings = SwarmSettings(RUN, terms, 100_000)
    coordinator = Coordinator(
        settings, EndlessController(), RUN_KEY, Ledger(folder / "ledger.sqlite", RUN_KEY),
        ResultStore(folder / "uploads"),
        latest=lambda: LatestVersion(RUN, 0, b"m" * 32, time.time()), fail=lambda error: sys.exit(str(error)),
    )  # fmt: skip
    for number in range(NODES + 1):
        role: Role = "verifier" if number == NODES else "node"
        invite = create_invite(RUN_KEY, run=RUN, coordinator="http://c", relays=(), role=role, seconds=3600)
        coordinator.join(public_key_bytes(derive_node_key(number)), JoinRequest(invite.text.encode(), "transformers 5"))
    coordinator.start()
    files = RelayApp(folder, RelayRateLimiter(1e3, 1e9))
    app = CoordinatorApp(coordinator, RUN_KEY, start=START, files=files, page_token="x", calls_per_second=1e6)
    listener = listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    config = build_bounded_config(app, head_seconds=10, response_seconds=60, keep_alive_seconds=60, stop_seconds=2)
    uvicorn.Server(config).run(sockets=[listener])


def sign_request_bytes(number: int, path: str, body: bytes) -> bytes:
    key = derive_node_key(number)
    headers = sign_request(create_head(path, RUN, public_key_bytes(key), body, START), key)
    lines = [f"POST {path} HTTP/1.1", "host: c", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode() + body


class Connection:
    """An HTTP connection of a node, which sends one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def send(self, request: bytes) -> bytes:
        """Return the body of the response. Raises RuntimeError for an error status."""
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
        body = await self._reader.readexactly(length)
        if not head.startswith(("http/1.1 200", "http/1.1 204")):
            raise RuntimeError(head + body.decode())
        return body


async def measure_max_rate(port: int) -> dict[str, float]:
    requests = [sign_request_bytes(n % NODES, "/beat", encode_heartbeat(n % NODES)) for n in range(REQUESTS)]
    connections = [await Connection(port).open() for _ in range(CONNECTIONS)]

    async def send_all(connection: Connection) -> None:
        while requests:
            await connection.send(requests.pop())

    began = time.perf_counter()
    await asyncio.gather(*map(send_all, connections))
    return {"per_second": REQUESTS / (time.perf_counter() - began)}


async def measure_leases(port: int) -> dict[str, float]:
    connection = await Connection(port).open()
    tokens, logprobs = pack_tokens(range(TOKENS)), pack_logprobs([-1.0] * TOKENS)
    verified = SampleResult(0, 0, 0, tokens, logprobs, ((0, 0, TOKENS),), "length")
    result = msgspec.structs.replace(verified, commitments=bytes(2 * TOKENS))
    began = time.perf_counter()
    for number in range(LEASES):
        name = public_key_bytes(derive_node_key(number)).hex()
        work = msgspec.msgpack.encode(LeaseRequest(name, 0, 1))
        reply = await connection.send(sign_request_bytes(number, "/work", work))
        [lease] = msgspec.msgpack.decode(reply, type=LeaseResponse).leases
        answers, sound = (
            tuple(msgspec.structs.replace(one, group=lease.group, number=n) for n in range(COMPLETIONS))
            for one in (result, verified)
        )
        body = msgspec.msgpack.encode(SubmitRequest(name, answers))
        verdict = msgspec.msgpack.encode(VerificationResult(ACCEPTED, sound))
        await connection.send(sign_request_bytes(number, "/answers", body))
        await connection.send(sign_request_bytes(NODES, "/job", b""))
        await connection.send(sign_request_bytes(NODES, f"/file/{lease.group}", b""))
        await connection.send(sign_request_bytes(NODES, f"/verdict/{lease.group}", verdict))
    return {"per_second": LEASES / (time.perf_counter() - began), "file_bytes": len(body)}


def main() -> None:
    if len(sys.argv) > 1:  # the coordinator, in a child process
        serve(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.swarm.coordinator", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                port = int(server.stdout.readline())
                measured: dict[str, Any] = {
                    "machine": describe_machine(),
                    "nodes": NODES,
                    "connections": CONNECTIONS,
                    "fastest": asyncio.run(measure_max_rate(port)),
                    "leases": asyncio.run(measure_leases(port)),
                }
            finally:
                server.terminate()
    save_results("coordinator", measured)


if __name__ == "__main__":
    main()
