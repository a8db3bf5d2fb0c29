"""Measure how many judgements a second one process can dispatch, to workers that sleep instead of judging.

    python -m benchmarks.supervisor

Each worker is a socket of one other process, which reads a request, sleeps a millisecond and sends a judgement of
fifteen cases. The calling process does the same work as for real workers; the sixteen programs of a suite arrive
together, like the completions of a group. `judge_many` takes requests from an iterator, `judge` is called by one thread
per worker.
"""

import heapq
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.record import describe_machine, save_results
from sandbox import Case, Judgement, Program, Suite, Verdict
from sandbox.backends._workers import ResponseReader, SocketLane, WorkerBackend
from sandbox.jail.channel import Channel
from sandbox.judge import CaseJudgement
from sandbox.request import JudgeRequest

WORKERS = (1, 16, 64, 128)
SLEEP_SECONDS = 1e-3
ROUND_SECONDS = 4.0
GROUP = 16  # programs of the same suite
CASES = 15
JUDGEMENT = Judgement(
    Verdict.ACCEPTED,
    tuple(CaseJudgement(Verdict.ACCEPTED, 0.0123 + n / 7e5, 0.0131 + n / 7e5, 8.4 + n / 7) for n in range(CASES)),
    CASES,
)


class _RecordedChannel(Channel):
    """A channel that keeps outgoing messages."""

    def __init__(self) -> None:
        super().__init__(-1, -1)
        self.sent = b""

    def write(self, data: memoryview) -> int:
        self.sent += data
        return len(data)


def serve(listeners: list[socket.socket]) -> None:
    """Serve the requests of all sockets until they are closed."""
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
                connected = key.fileobj
                assert isinstance(connected, socket.socket)
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


class SleepingLane(SocketLane):
    """The caller's side of a sleeping worker."""

    layers: dict[str, str] = {}


def requests(seconds: float) -> Iterator[JudgeRequest]:
    """Yield requests for `seconds`."""
    end = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < end:
        suite = Suite([Case(f"{number} {case} {'x' * 130}", f"{number} {case}") for case in range(CASES)])
        for _ in range(GROUP):
            yield JudgeRequest(Program(f"print(input())  # {number}" * 20), suite)
            number += 1


def sleeping_backend(sockets: list[socket.socket], reader: ResponseReader) -> WorkerBackend:
    """Return a backend whose workers are at the other ends of these sockets."""
    lanes = (SleepingLane(end, reader) for end in sockets)
    return WorkerBackend(lambda *_: next(lanes), workers=len(sockets), isolation="full", memory_mb=1 << 20)


def measure(workers: int) -> Iterator[dict[str, Any]]:
    pairs = [socket.socketpair() for _ in range(workers)]
    child = os.fork()
    if child == 0:
        for ours, _ in pairs:
            ours.close()
        serve([theirs for _, theirs in pairs])
        os._exit(0)
    for _, theirs in pairs:
        theirs.close()
    reader = ResponseReader()
    pool = sleeping_backend([ours for ours, _ in pairs], reader)

    def judge_many() -> int:
        return sum(judged.accepted for _, judged in pool.execute_many(requests(ROUND_SECONDS)))

    def judge() -> int:
        def ask(_: int) -> int:
            return sum(pool.execute(request).accepted for request in requests(ROUND_SECONDS))

        with ThreadPoolExecutor(workers) as threads:
            return sum(threads.map(ask, range(workers)))

    calls: tuple[Callable[[], int], ...] = (judge_many, judge)
    for call in calls:
        started, cpu_seconds = time.perf_counter(), time.process_time()
        count = call()
        seconds = time.perf_counter() - started
        yield {
            "workers": workers,
            "call": call.__name__,
            "per_second": count / seconds,
            "cpu_microseconds": (time.process_time() - cpu_seconds) / count * 1e6,
        }
    pool.close()
    reader.close()
    os.waitpid(child, 0)


def main() -> None:
    rows = [row for workers in WORKERS for row in measure(workers)]
    results = {"machine": describe_machine(), "cases": CASES, "sleep_seconds": SLEEP_SECONDS, "rows": rows}
    save_results("supervisor", results)


if __name__ == "__main__":
    main()
