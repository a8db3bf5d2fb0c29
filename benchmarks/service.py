"""`curate serve` under load:  python -m benchmarks.service

It serves 128 clients with mixed submissions, then 16 clients of /run_code. All clients are in one process with prepared
requests (a selector over sockets, no HTTP library), because it shares the cores with the service and its workers. Each
connection sends its next request upon the response to the last. For comparison, as many threads use a Sandbox directly.
"""

import itertools
import json
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.record import describe_machine, percentile_ms, save_results
from sandbox import Program, Sandbox

N_SUBMISSIONS = N_RUNS = 3000
CROWD, CLIENTS = 128, 16  # clients of each part
BUSY = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass\n"
SUBMISSIONS = {  # right verdict -> code; each program should read a line and print it. The time limit is 1 s
    "accepted": "print(input())",
    "accepted ": BUSY.format(seconds=0.2) + "print(input())",  # a fifth of its limit
    "wrong_answer": "print(input() + '!')",
    "runtime_error": "print(input()[1000])",
    "compile_error": "print(input(",
    "memory_limit": "x = bytearray(10**9)",
    "time_limit": "while True: pass",
}
Response = tuple[Any, int, bytes, float]  # key of the request, status, body, seconds
MIX = {"accepted": 50, "accepted ": 4, "wrong_answer": 25, "runtime_error": 15, "compile_error": 10, "memory_limit": 5}


@dataclass
class Connection:
    sock: socket.socket
    key: Any = None  # of the pending request
    sent: float = 0.0
    received: bytearray = field(default_factory=bytearray)


def post(path: str, content: Any) -> bytes:
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def load(port: int, clients: int, requests: Iterable[tuple[Any, bytes]]) -> Generator[Response, None, None]:
    """Yield the response to each (key, request), sent over this many connections at once."""
    waiting = iter(requests)
    selector = selectors.EpollSelector()
    for key, request in itertools.islice(waiting, clients):
        connection = Connection(socket.create_connection(("127.0.0.1", port)))
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection.sock, selectors.EVENT_READ, connection)
        _send(connection, key, request)
    while selector.get_map():
        for ready, _ in selector.select():
            connection = ready.data
            data = connection.sock.recv(1 << 20)
            if not data:
                raise ConnectionError(f"the service hung up on {connection.key}")
            connection.received += data
            if (response := _read_response(connection)) is not None:
                yield connection.key, *response, time.perf_counter() - connection.sent
                following = next(waiting, None)
                if following is None:
                    selector.unregister(connection.sock)
                    connection.sock.close()
                else:
                    _send(connection, *following)


def _send(connection: Connection, key: Any, request: bytes) -> None:
    connection.key, connection.sent = key, time.perf_counter()
    connection.received.clear()
    connection.sock.sendall(request)


def _read_response(connection: Connection) -> tuple[int, bytes] | None:
    end = connection.received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(connection.received[:end]).lower()
    length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
    body = bytes(connection.received[end + 4 :])
    return (int(head[9:12]), body) if len(body) == length else None


class Service:
    """A service started for one measurement."""

    def __init__(self) -> None:
        start = [sys.executable, "-c", "from cli import main; main()", "serve", "--port", "0"]
        self._process = subprocess.Popen(start, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().split(" (")[0].rsplit(":", 1)[1])
        self._seen: set[psutil.Process] = set()

    def record_descendants(self) -> None:
        """Record all descendants of the service."""
        self._seen |= set(psutil.Process(self._process.pid).children(recursive=True))

    def stop(self) -> int:
        """Send SIGTERM, and return the number of leftover processes."""
        self.record_descendants()
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0
        return len(psutil.wait_procs(self._seen, timeout=5)[1])


def draw_submissions() -> Iterator[tuple[str, bytes]]:
    """Yield the right verdict and the request of each submission. All programs differ, so each is compiled."""
    mix = [right for right, share in MIX.items() for _ in range(share)]
    for number in range(N_SUBMISSIONS):
        right = "time_limit" if number % 300 == 299 else mix[number * 7919 % len(mix)]
        record = {
            "id": number,
            "code": f"{SUBMISSIONS[right]}\n# {number}",
            "kind": "stdin",
            "tests": [{"input": f"{number}\n", "output": f"{number}\n"}],
            "time_limit_s": 1,
            "memory_limit_mb": 256,
        }
        yield right.strip(), post("/judge", record)


def measure_crowd() -> dict[str, Any]:
    """Send mixed submissions from 128 clients, and check every verdict."""
    wrong: Counter[str] = Counter()
    service = Service()
    for number, (right, _, body, _) in enumerate(load(service.port, CROWD, draw_submissions())):
        verdict = json.loads(body).get("verdict", "none")
        if verdict != right:
            wrong[f"{verdict} instead of {right}"] += 1
        if number % 200 == 0:
            service.record_descendants()
    return {
        "clients": CROWD,
        "submissions": N_SUBMISSIONS,
        "wrong_verdicts": dict(wrong),
        "false_time_limits": sum(n for mistake, n in wrong.items() if mistake.startswith("time_limit ")),
        "leaked_processes": service.stop(),
    }


def measure_runs() -> dict[str, Any]:
    """Measure /run_code with 16 clients: with one program, as for the tests of a submission, then with new programs."""
    sources: dict[str, Callable[[int], str]] = {
        "same_program": lambda number: "print(input())",
        "new_programs": lambda number: f"print(input())# {number}",
    }
    measured = {
        name: {"in_process_before": runs_per_second(source), **measure_http_runs(source)}
        for name, source in sources.items()
    }
    return {"clients": CLIENTS, "runs": N_RUNS, **measured}


def measure_http_runs(source: Callable[[int], str]) -> dict[str, Any]:
    def request(number: int) -> bytes:
        content = {"code": source(number), "language": "python", "stdin": f"{number}\n", "run_timeout": 10}
        return post("/run_code", content)

    service, seconds = Service(), []
    began = time.perf_counter()
    for number, status, body, took in load(service.port, CLIENTS, ((n, request(n)) for n in range(N_RUNS))):
        response = json.loads(body)
        assert (status, response["run_result"]["stdout"]) == (200, f"{number}\n"), response
        seconds.append(took)
    rate = N_RUNS / (time.perf_counter() - began)
    service.stop()
    return {"per_second": rate, "milliseconds": {f"p{p}": percentile_ms(seconds, p) for p in (50, 99)}}


def runs_per_second(source: Callable[[int], str]) -> float:
    """Return the runs per second of a Sandbox in this process."""
    with Sandbox() as box, ThreadPoolExecutor(CLIENTS) as threads:
        box.run(Program("print(input())"), "\n")
        began = time.perf_counter()
        for number, result in enumerate(threads.map(lambda n: box.run(Program(source(n)), f"{n}\n"), range(N_RUNS))):
            assert result.stdout == b"%d\n" % number
        return N_RUNS / (time.perf_counter() - began)


def main() -> None:
    save_results("service", {"machine": describe_machine(), "run_code": measure_runs(), "crowd": measure_crowd()})


if __name__ == "__main__":
    main()
