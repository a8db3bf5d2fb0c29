"""CPU time of a request in each process of `curate serve`:  python -m benchmarks.front_ends

Instead of workers, one process serves a socket per worker: it reads a request, sleeps for a millisecond and sends a
judgement. The service answers /judge, with different numbers of front ends.
"""

import heapq
import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import psutil

from benchmarks.record import describe_machine, save_results
from sandbox import Judgement, Sandbox, Verdict
from sandbox.backends._workers import ResponseReader, SocketLane, WorkerBackend
from sandbox.judge import CaseJudgement
from sandbox.judging.channel import Channel
from sandbox.service import server
from sandbox.service.listener import listen_many
from sandbox.service.settings import ServiceSettings

WORKERS = 128
SLEEP_SECONDS = 1e-3
PROCESSES = (1, 2, 4, 16)
CONNECTIONS = 192
SECONDS = 8.0
SETTINGS = ServiceSettings(max_queued_requests=4096)
_RECORD = {"id": 0, "code": "print(input())", "kind": "stdin", "tests": [{"input": "a\n", "output": "a\n"}]}
_BODY = json.dumps(_RECORD)
REQUEST = (
    "POST /judge HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    f"content-length: {len(_BODY)}\r\n\r\n{_BODY}"
).encode()
JUDGEMENT = Judgement(Verdict.ACCEPTED, (CaseJudgement(Verdict.ACCEPTED, 0.0123, 0.0131, 8.4),), 1)


class _RecordedChannel(Channel):
    """A channel that keeps outgoing messages."""

    def __init__(self) -> None:
        super().__init__(-1, -1)
        self.sent = b""

    def write(self, data: memoryview) -> int:
        self.sent += data
        return len(data)


def sleep_and_respond(listeners: list[socket.socket]) -> None:
    """Respond to the requests of all sockets until they are closed, each after SLEEP_SECONDS."""
    recorder = _RecordedChannel()
    recorder.send_response(JUDGEMENT)
    missing = dict.fromkeys(listeners, 0)  # missing bytes of a request; 0: its length is also missing
    due: list[tuple[float, int, socket.socket]] = []
    with selectors.EpollSelector() as selector:
        for each in listeners:
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            seconds = max(0.0, due[0][0] - time.monotonic()) if due else None
            for key, _ in selector.select(seconds):
                connected = cast("socket.socket", key.fileobj)
                data = connected.recv(1 << 20)
                if not data:
                    selector.unregister(connected)
                    continue
                left = missing[connected] or 8 + int.from_bytes(data[:8], "little")
                missing[connected] = left - len(data)
                if left == len(data):
                    heapq.heappush(due, (time.monotonic() + SLEEP_SECONDS, connected.fileno(), connected))
            while due and due[0][0] <= time.monotonic():
                due[0][2].sendall(recorder.sent)
                heapq.heappop(due)


class SleepingWorkerClient(SocketLane):
    """The client of a sleeping worker."""

    layers: dict[str, str] = {}


class SleepingSandbox(Sandbox):
    """A sandbox whose workers are the peers of these sockets."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        reader = ResponseReader()
        lanes = (SleepingWorkerClient(end, reader) for end in sockets)
        backend = WorkerBackend(lambda *_: next(lanes), workers=len(sockets), isolation="full", memory_mb=1 << 20)
        self._limit_clamp = None
        self._backend = backend  # type: ignore[assignment]
        self._backend.packages = ()  # type: ignore[misc]


def fork(function: Callable[[], object]) -> int:
    """Call a function in a forked process, and return its pid."""
    pid = os.fork()
    if pid == 0:
        with suppress(OSError):
            function()
        os._exit(0)
    return pid


@contextmanager
def run_service(processes: int) -> Iterator[tuple[psutil.Process, int]]:
    """Serve with this many front ends and sleeping workers; yield the dispatcher and the port."""
    pairs = [socket.socketpair() for _ in range(WORKERS)]
    reader, writer = os.pipe()

    def close(side: int) -> None:
        for pair in pairs:
            pair[side].close()

    def run_workers() -> None:
        close(0)
        sleep_and_respond([theirs for _, theirs in pairs])

    def serve() -> None:
        close(1)
        listeners = listen_many("127.0.0.1", 0, processes)
        port = listeners[0].getsockname()[1]
        box = SleepingSandbox([ours for ours, _ in pairs])
        server.serve(box, SETTINGS, listeners, lambda: os.write(writer, b"%d" % port))

    pids = [fork(run_workers), fork(serve)]
    close(0)
    close(1)
    try:
        yield psutil.Process(pids[1]), int(os.read(reader, 100))
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)


def read_cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def measure_service(processes: int) -> dict[str, Any]:
    with run_service(processes) as (dispatcher, port):
        everyone = [dispatcher, *dispatcher.children()]
        responses = send_requests(port)
        count_accepted(responses, 1.0)
        before = [read_cpu_seconds(process) for process in everyone]
        n_requests = count_accepted(responses, SECONDS)
        used = [read_cpu_seconds(process) - seconds for process, seconds in zip(everyone, before, strict=True)]
        responses.close()
    return {
        "processes": processes,
        "dispatcher_cpu_microseconds": used[0] / n_requests * 1e6,
        "front_end_cpu_microseconds": sum(used[1:]) / n_requests * 1e6,
    }


def send_requests(port: int) -> Generator[bytes, None, None]:
    """Send a request over each connection, and another one upon each response; yield the bodies of the responses."""
    received: dict[socket.socket, bytes] = {}
    with selectors.EpollSelector() as selector:
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ)
            received[connection] = b""
            connection.sendall(REQUEST)
        while True:
            for key, _ in selector.select():
                connection = cast("socket.socket", key.fileobj)
                received[connection] += connection.recv(1 << 20)
                head, separator, body = received[connection].partition(b"\r\n\r\n")
                if separator and len(body) == int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
                    received[connection] = b""
                    connection.sendall(REQUEST)
                    yield body


def count_accepted(responses: Iterator[bytes], seconds: float) -> int:
    """Count the responses of a period. Every verdict must be `accepted`."""
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        assert json.loads(next(responses))["verdict"] == "accepted"
        count += 1
    return count


def main() -> None:
    rows = [measure_service(processes) for processes in PROCESSES]
    results = {"machine": describe_machine(), "workers": WORKERS, "sleep_seconds": SLEEP_SECONDS, "rows": rows}
    save_results("front_ends", results)


if __name__ == "__main__":
    main()
