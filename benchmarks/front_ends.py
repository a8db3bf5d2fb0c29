"""Measure the CPU time of a request in each process of `curate serve`, with workers that sleep instead of judging.

    python -m benchmarks.front_ends

The workers are those of benchmarks/supervisor.py. First the whole service answers /judge, with different numbers of
front ends. Then one process sends the dispatcher the load of sixteen front ends: this is the dispatcher's maximal rate
if front ends have their own cores.
"""

import asyncio
import itertools
import os
import pickle
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import uvicorn

from benchmarks import service, supervisor
from benchmarks.record import cpu_seconds, describe_machine, save_results
from sandbox import Case, Judgement, Program, Sandbox, Suite, Verdict
from sandbox.backends._workers import ResponseReader
from sandbox.judge import CaseJudgement
from sandbox.request import JudgeRequest
from sandbox.service import server
from sandbox.service.dispatcher import ServiceDispatcher, Session
from sandbox.service.listener import listen_many
from sandbox.service.settings import ServiceSettings

WORKERS = 128
PROCESSES = (1, 2, 4, 16)
CONNECTIONS = 192
LINKS, REQUESTS_PER_LINK = 16, 24
SECONDS = 8.0
SETTINGS = ServiceSettings(max_queued_requests=4096)
RECORD = {"id": 0, "code": "print(input())", "kind": "stdin", "tests": [{"input": "a\n", "output": "a\n"}]}
REQUEST = JudgeRequest(Program("print(input())"), Suite([Case("a\n", "a\n")]))
supervisor.JUDGEMENT = Judgement(Verdict.ACCEPTED, (CaseJudgement(Verdict.ACCEPTED, 0.0123, 0.0131, 8.4),), 1)


class SleepingSandbox(Sandbox):
    """A sandbox with workers that sleep."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._limit_clamp = None
        self._backend = supervisor.sleeping_backend(sockets, ResponseReader())  # type: ignore[assignment]
        self._backend.packages = ()  # type: ignore[misc]


def fork(function: Callable[[], object]) -> int:
    """Call a function in a forked process; return the process id."""
    pid = os.fork()
    if pid == 0:
        with suppress(OSError):
            function()
        os._exit(0)
    return pid


@contextmanager
def run_server(serve: Callable[[Sandbox, int], object]) -> Iterator[tuple[psutil.Process, bytes]]:
    """Call serve(sandbox, descriptor) in a process; yield the process, and the bytes it writes to the descriptor."""
    pairs = [socket.socketpair() for _ in range(WORKERS)]
    reader, writer = os.pipe()

    def close(side: int) -> None:
        for pair in pairs:
            pair[side].close()

    def work() -> None:
        close(0)
        supervisor.serve([theirs for _, theirs in pairs])

    def answer() -> None:
        close(1)
        serve(SleepingSandbox([ours for ours, _ in pairs]), writer)

    pids = [fork(work), fork(answer)]
    close(0)
    close(1)
    try:
        yield psutil.Process(pids[1]), os.read(reader, 100)
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)


def measure_service(processes: int) -> dict[str, Any]:
    def serve(box: Sandbox, ready: int) -> None:
        listeners = listen_many("127.0.0.1", 0, processes)
        port = listeners[0].getsockname()[1]
        server.serve(box, SETTINGS, listeners, lambda: os.write(ready, b"%d" % port))

    with run_server(serve) as (dispatcher, port):
        everyone = [dispatcher, *dispatcher.children()]
        requests = itertools.repeat((0, service.post("/judge", RECORD)))
        answers = service.load(int(port), CONNECTIONS, requests)
        service.replies_per_second(answers, 1.0)
        before = [cpu_seconds(process) for process in everyone]
        per_second = service.replies_per_second(answers, SECONDS)
        used = [cpu_seconds(process) - seconds for process, seconds in zip(everyone, before, strict=True)]
        answers.close()
    n_requests = per_second * SECONDS
    return {
        "processes": processes,
        "per_second": per_second,
        "dispatcher_cpu_microseconds": used[0] / n_requests * 1e6,
        "front_end_cpu_microseconds": sum(used[1:]) / n_requests * 1e6,
    }


def measure_dispatcher() -> dict[str, Any]:
    pairs = [socket.socketpair() for _ in range(LINKS)]

    async def sessions(box: Sandbox, ready: int) -> None:
        dispatcher = ServiceDispatcher(box, SETTINGS)
        for ours, theirs in pairs:
            theirs.close()
            link = Session(dispatcher, lambda: None, lambda: None).link
            await asyncio.get_running_loop().create_connection(lambda link=link: link, sock=ours)  # type: ignore[misc]
        os.write(ready, b"ready")
        await asyncio.Event().wait()

    def serve(box: Sandbox, ready: int) -> None:
        with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
            runner.run(sessions(box, ready))

    with run_server(serve) as (dispatcher, _):
        answers = send_requests([theirs for _, theirs in pairs])
        count_replies(answers, 1.0)
        before = cpu_seconds(dispatcher)
        n_requests = count_replies(answers, SECONDS)
        used = cpu_seconds(dispatcher) - before
    return {"per_second": n_requests / SECONDS, "cpu_microseconds": used / n_requests * 1e6}


def send_requests(links: list[socket.socket]) -> Iterator[int]:
    """Send requests over all links, a new one for each reply; yield the number of replies that arrive together."""
    by_descriptor = {link.fileno(): (link, bytearray()) for link in links}
    poll = select.epoll()
    for number, link in enumerate(links):
        poll.register(link.fileno(), select.EPOLLIN)
        _send(link, range(REQUESTS_PER_LINK), f"10.0.0.{number}")
    while True:
        for descriptor, _ in poll.poll():
            link, arrived = by_descriptor[descriptor]
            arrived += link.recv(1 << 20)
            numbers: list[int] = []
            while len(arrived) >= 8 and len(arrived) >= 8 + (size := int.from_bytes(arrived[:8], "little")):
                numbers += [number for _, number, _ in pickle.loads(arrived[8 : 8 + size])]
                del arrived[: 8 + size]
            if numbers:
                _send(link, numbers, f"10.0.0.{descriptor}")
                yield len(numbers)


def _send(link: socket.socket, numbers: Any, client: str) -> None:
    calls: list[tuple[Any, ...]] = [("execute", number, client, REQUEST, None, False) for number in numbers]
    calls += [("count", "/judge", 200) for _ in numbers]
    data = pickle.dumps(calls, protocol=5)
    link.sendall(len(data).to_bytes(8, "little") + data)


def count_replies(answers: Iterator[int], seconds: float) -> int:
    end, n_answers = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        n_answers += next(answers)
    return n_answers


def main() -> None:
    results = {"machine": describe_machine(), "load_before": os.getloadavg()[0]}  # rates depend on other load
    results |= {"workers": WORKERS, "sleep_seconds": supervisor.SLEEP_SECONDS}
    results |= {"dispatcher": measure_dispatcher(), "rows": [measure_service(processes) for processes in PROCESSES]}
    save_results("front_ends", results)


if __name__ == "__main__":
    main()
