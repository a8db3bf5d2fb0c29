"""Measure `curate serve` under load.

It serves 128 clients with mixed submissions, then 16 clients of /run_code, then 64 clients together with a hostile one,
through nginx with the configuration of docs/guides/serve.md.

    python -m benchmarks.service

All clients are in one process with prepared requests (a selector over sockets, no HTTP library), because it shares the
cores with the service and its workers. Each connection sends its next request upon the response to the last.
Before and after, as many threads use the same Sandbox without a service, to compare rates.

Each of the 64 clients, and the hostile one (benchmarks/hostile.py), has its own address. The rate of the 64 is measured
in short spans, alternately with and without the hostile client.
"""

import itertools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks import hostile, nginx
from benchmarks.record import cpu_seconds, describe_machine, percentile_ms, save_results
from sandbox import Program, Sandbox

N_SUBMISSIONS = N_RUNS = 3000
CROWD, CLIENTS, HONEST = 128, 16, 64  # clients of each part
SPAN_SECONDS, SPANS = 6.0, 4  # of each kind
SETTLE_SECONDS = 1.0  # before a span
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
MIX = {"accepted": 50, "accepted ": 4, "wrong_answer": 25, "runtime_error": 15, "compile_error": 10, "memory_limit": 5}


@dataclass
class Connection:
    sock: socket.socket
    key: Any = None  # of the request that awaits its answer
    sent: float = 0.0
    received: bytearray = field(default_factory=bytearray)


def post(path: str, content: Any) -> bytes:
    return hostile.post(path, json.dumps(content).encode())


def load(
    port: int, clients: int, requests: Iterable[tuple[Any, bytes]], *, addresses: bool = False
) -> Generator[tuple[Any, int, bytes, float], None, None]:
    """Yield (key, status, body, seconds) for each (key, request), sent over this many connections at once.

    With `addresses`, each connection has its own address.
    """
    waiting = iter(requests)
    selector = selectors.EpollSelector()
    for number, (key, request) in enumerate(itertools.islice(waiting, clients)):
        source = (f"127.0.2.{number + 1}", 0) if addresses else None
        connection = Connection(socket.create_connection(("127.0.0.1", port), source_address=source))
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
            if (answer := _answer(connection)) is not None:
                yield connection.key, *answer, time.perf_counter() - connection.sent
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


def _answer(connection: Connection) -> tuple[int, bytes] | None:
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

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the service itself, dispatcher and front ends, without its workers."""
        dispatcher = psutil.Process(self._process.pid)
        front_ends = [each for each in dispatcher.children() if "sandbox.service.front_end" in " ".join(each.cmdline())]
        return sum(map(cpu_seconds, (dispatcher, *front_ends)))

    def stop(self) -> int:
        """Stop the service as an operator would, and return the number of leftover processes."""
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
    verdicts: Counter[str] = Counter()
    statuses: Counter[int] = Counter()
    seconds = []
    service = Service()
    began = time.perf_counter()
    for number, (right, status, body, took) in enumerate(load(service.port, CROWD, draw_submissions())):
        verdict = json.loads(body).get("verdict", "none")
        statuses[status] += 1
        verdicts[verdict] += 1
        if verdict != right:
            wrong[f"{verdict} instead of {right}"] += 1
        seconds.append(took)
        if number % 200 == 0:
            service.record_descendants()
    wall_seconds = time.perf_counter() - began
    return {
        "clients": CROWD,
        "submissions": N_SUBMISSIONS,
        "per_second": N_SUBMISSIONS / wall_seconds,
        "statuses": dict(statuses),
        "verdicts": dict(verdicts),
        "wrong_verdicts": dict(wrong),
        "false_time_limits": sum(n for mistake, n in wrong.items() if mistake.startswith("time_limit ")),
        "leaked_processes": service.stop(),
        "milliseconds": percentiles(seconds),
    }


def measure_runs() -> dict[str, Any]:
    """Measure /run_code with 16 clients.

    They send one program repeatedly, as a trainer does with the tests of a submission, and then only new programs. The
    same Sandbox is also measured without the service.
    """
    result: dict[str, Any] = {"clients": CLIENTS, "runs": N_RUNS}
    sources = {
        "same_program": lambda number: "print(input())",
        "new_programs": lambda number: f"print(input())# {number}",
    }
    for name, source in sources.items():
        result[name] = {"in_process_before": runs_per_second(source), **measure_http_runs(source)}
        result[name]["in_process_after"] = runs_per_second(source)
    return result


def measure_http_runs(source: Callable[[int], str]) -> dict[str, Any]:
    def request(number: int) -> bytes:
        content = {"code": source(number), "language": "python", "stdin": f"{number}\n", "run_timeout": 10}
        return post("/run_code", content)

    service, seconds = Service(), []
    began, used = time.perf_counter(), time.process_time()
    for number, status, body, took in load(service.port, CLIENTS, ((n, request(n)) for n in range(N_RUNS))):
        answer = json.loads(body)
        assert (status, answer["run_result"]["stdout"]) == (200, f"{number}\n"), answer
        seconds.append(took)
    wall_seconds = time.perf_counter() - began
    return {
        "per_second": N_RUNS / wall_seconds,
        "milliseconds": percentiles(seconds),
        "client_cpu_ms_per_run": (time.process_time() - used) / N_RUNS * 1e3,
        "service_cpu_ms_per_run": service.cpu_seconds() / N_RUNS * 1e3,
        "leaked_processes": service.stop(),
    }


def runs_per_second(source: Callable[[int], str]) -> float:
    """Return the runs per second of a Sandbox in this process."""
    with Sandbox() as box, ThreadPoolExecutor(CLIENTS) as threads:
        box.run(Program("print(input())"), "\n")
        began = time.perf_counter()
        for number, result in enumerate(threads.map(lambda n: box.run(Program(source(n)), f"{n}\n"), range(N_RUNS))):
            assert result.stdout == b"%d\n" % number
        return N_RUNS / (time.perf_counter() - began)


def measure_hostile() -> dict[str, Any]:
    """Measure the rate of 64 clients with each hostile client, as a share of their rate without it."""
    result: dict[str, Any] = {"clients": HONEST, "behaviours": {}}
    for behavior in hostile.BEHAVIORS:
        service = Service()
        with nginx.run_nginx(service.port) as port:
            rates = measure_rates(behavior, port)
        without, beside = (sum(rates[there]) / SPANS for there in (False, True))
        result["behaviours"][behavior] = {"without": without, "beside": beside, "share": beside / without}
        print(behavior, result["behaviours"][behavior], flush=True)
        service.stop()
    return result


def measure_rates(behavior: str, port: int) -> dict[bool, list[float]]:
    """Return rates in several spans, without (False) and with the hostile client."""
    tests = [{"input": "a\n", "output": "a\n"}]
    record = {"id": 0, "code": "print(input())", "kind": "stdin", "tests": tests, "time_limit_s": 60}
    answers = load(port, HONEST, itertools.repeat((0, post("/judge", record))), addresses=True)
    replies_per_second(answers, SETTLE_SECONDS)
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * SPANS):
        there = number % 4 in (1, 2)  # balances a drift of the machine's speed
        with hostile_client(behavior, port) if there else nullcontext():
            replies_per_second(answers, SETTLE_SECONDS)
            rates[there].append(replies_per_second(answers, SPAN_SECONDS))
    answers.close()
    return rates


@contextmanager
def hostile_client(behavior: str, port: int) -> Iterator[None]:
    start = [sys.executable, "-m", "benchmarks.hostile", behavior, str(port)]
    process = subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    process.stdin.write(b"\n")
    process.stdin.flush()
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def replies_per_second(answers: Iterator[tuple[Any, int, bytes, float]], seconds: float) -> float:
    """Return the right replies per second."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        _, status, body, _ = next(answers)
        assert (status, json.loads(body).get("verdict")) == (200, "accepted"), body
        count += 1
    return count / (time.perf_counter() - began)


def percentiles(seconds: list[float]) -> dict[str, float]:
    return {f"p{percent}": percentile_ms(seconds, percent) for percent in (50, 95, 99)}


def main() -> None:
    results = {"machine": describe_machine(), "load_before": os.getloadavg()[0]}  # rates depend on other load
    results |= {"run_code": measure_runs(), "crowd": measure_crowd(), "hostile": measure_hostile()}
    save_results("service", results)


if __name__ == "__main__":
    main()
