"""Measure a trivial test in the sandbox with full isolation, in a plain subprocess, and in a fork of an interpreter.

    python -m benchmarks.sandbox [ROUNDS]

They alternate in every round, so that other load on the machine affects them alike. Latency is measured one test at a
time, from sending the input until the output is compared; `suite` is the sandbox's latency per test of a submission
with fifty tests; `landlock` and `landlock_suite` are the same without namespaces. Throughput is measured with one
test per core at a time.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import describe
from sandbox import Case, Limits, Program, Sandbox, Suite, Verdict

SOURCE = "print(input())"
TEXT = "hello\n"
PER_ROUND = 100
INTERPRETER = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
RESULTS = Path(__file__).parent / "results" / "sandbox.json"


def plain_subprocess() -> None:
    done = subprocess.run([INTERPRETER, "-I", "-c", SOURCE], input=TEXT, capture_output=True, text=True)
    assert done.stdout == TEXT


def bare_fork(code: Any) -> None:
    """Measure the lower bound: fork, run the compiled program with files as stdin and stdout, and read its output."""
    stdin, stdout = os.memfd_create("in"), os.memfd_create("out")
    os.pwrite(stdin, TEXT.encode(), 0)
    pid = os.fork()
    if pid == 0:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        exec(code, {"__name__": "__main__"})
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.pread(stdout, 100, 0) == TEXT.encode()
    os.close(stdin)
    os.close(stdout)


def fork_server(rounds: int) -> None:
    """Call bare_fork from a warm interpreter: run a round for each line of input and print the seconds of each test."""
    import gc

    code = compile(SOURCE, "solution.py", "exec")
    gc.freeze()
    commands = os.fdopen(os.dup(0))
    answers = os.fdopen(os.dup(1), "w")
    for _ in range(rounds):
        commands.readline()
        answers.write(json.dumps(timed(lambda: bare_fork(code))) + "\n")
        answers.flush()


def timed(function: Callable[[], object], times: int = PER_ROUND) -> list[float]:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return seconds


def latencies(rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {
        name: [] for name in ("ours", "suite", "landlock", "landlock_suite", "subprocess", "fork")
    }
    start = [
        INTERPRETER,
        "-S",
        "-c",
        "import sys; sys.path[:0] = sys.argv[2:]; from benchmarks.sandbox import fork_server",
    ]
    start[-1] += "; fork_server(int(sys.argv[1]))"
    server = subprocess.Popen(
        [*start, str(rounds), *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    program, suite = Program(SOURCE), Suite([Case(TEXT, TEXT)])
    fifty = Suite([Case(TEXT, TEXT)] * 50)
    with Sandbox(workers=1) as box, Sandbox(workers=1, levels=("landlock",)) as other:
        for each in (box, other):
            each.judge(program, suite)
        for _ in range(rounds):
            seconds["ours"] += timed(lambda: box.judge(program, suite))
            seconds["suite"] += [total / 50 for total in timed(lambda: box.judge(program, fifty), times=4)]
            seconds["landlock"] += timed(lambda: other.judge(program, suite))
            seconds["landlock_suite"] += [total / 50 for total in timed(lambda: other.judge(program, fifty), times=4)]
            seconds["subprocess"] += timed(plain_subprocess)
            server.stdin.write("go\n")
            server.stdin.flush()
            seconds["fork"] += json.loads(server.stdout.readline())
    server.communicate()
    return seconds


def throughputs(rounds: int, cores: int) -> dict[str, list[float]]:
    """Return the tests per second and core, for each round."""
    rates: dict[str, list[float]] = {"ours": [], "subprocess": []}
    program, suite = Program(SOURCE), Suite([Case(TEXT, TEXT)] * 50)
    with Sandbox(workers=cores) as box, ThreadPoolExecutor(cores) as threads:
        list(box.judge_many([(program, suite)] * cores))
        for _ in range(rounds):
            started = time.perf_counter()
            judged = list(box.judge_many([(program, suite)] * (8 * cores)))
            rates["ours"].append(len(judged) * 50 / (time.perf_counter() - started) / cores)
            started = time.perf_counter()
            list(threads.map(lambda _: plain_subprocess(), range(50 * cores)))
            rates["subprocess"].append(50 * cores / (time.perf_counter() - started) / cores)
    return rates


def crowd(cores: int) -> dict[str, Any]:
    """Judge 128 submissions at once, each needing a fifth of its time limit, and count false time limits."""
    source = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nprint(input())"
    suite = Suite([Case(TEXT, TEXT)], limits=Limits(wall_seconds=1))
    with Sandbox(workers=cores) as box, ThreadPoolExecutor(128) as threads:
        judged = list(threads.map(lambda _: box.judge(Program(source), suite), range(128)))
    late = sum(judgement.verdict is Verdict.TIME_LIMIT for judgement in judged)
    return {"submissions": 128, "false_time_limits": late, "accepted": sum(j.accepted for j in judged)}


def memory() -> dict[str, float]:
    """Return the memory in MB of an idle supervisor, and of one idle worker with its three processes."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from sandbox import Sandbox, Program, Suite, Case\n"
        "box = Sandbox(workers=1)\n"
        f"box.judge(Program({SOURCE!r}), Suite([Case('1', '1')] * 50))\n"
        "print('ready', flush=True); input()"
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", code, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert supervisor.stdout is not None
    supervisor.stdout.readline()
    process = psutil.Process(supervisor.pid)
    worker = process.children(recursive=True)
    sizes = {
        "supervisor_rss": process.memory_info().rss / 2**20,
        "worker_pss": sum(child.memory_full_info().pss for child in worker) / 2**20,
        "worker_rss": sum(child.memory_info().rss for child in worker) / 2**20,
    }
    supervisor.communicate("\n")
    return sizes


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def main(rounds: int) -> None:
    cores = len(os.sched_getaffinity(0))
    seconds, rates = latencies(rounds), throughputs(rounds, cores)
    result = {
        "machine": describe(),
        "rounds": rounds,
        "milliseconds": {
            name: {"p50": statistics.median(values) * 1e3, "p99": percentile(values, 0.99) * 1e3}
            for name, values in seconds.items()
        },
        "tests_per_second_and_core": {name: statistics.median(values) for name, values in rates.items()},
        "crowd": crowd(cores),
        "memory_mb": memory(),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
