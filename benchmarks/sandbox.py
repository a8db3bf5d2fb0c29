"""A trivial test in the sandbox, in a plain subprocess, and in a fork of an interpreter:  python -m benchmarks.sandbox

They alternate in every round, so that other load on the machine affects them alike. Latency is that of one test at a
time, from sending the input until the output is compared; `suite` is the latency per test of a submission with fifty
tests. Throughput is that of one test per core at a time.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil

from benchmarks.record import describe_machine, save_results
from sandbox import Case, Program, Sandbox, Suite

ROUNDS = 20
PER_ROUND = 100
SOURCE, TEXT = "print(input())", "hello\n"
PROGRAM, ONE, FIFTY = Program(SOURCE), Suite([Case(TEXT, TEXT)]), Suite([Case(TEXT, TEXT)] * 50)
INTERPRETER = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
_FORK_SERVER = "import sys; sys.path[:0] = sys.argv[1:]; from benchmarks.sandbox import serve_forks; serve_forks()"
_IDLE_SANDBOX = f"""import sys; sys.path[:0] = sys.argv[1:]
from sandbox import Sandbox, Program, Suite, Case
box = Sandbox(workers=1)
box.judge(Program({SOURCE!r}), Suite([Case('1', '1')] * 50))
print('ready', flush=True); input()"""


def run_subprocess() -> None:
    done = subprocess.run([INTERPRETER, "-I", "-c", SOURCE], input=TEXT, capture_output=True, text=True)
    assert done.stdout == TEXT


def run_fork(code: Any) -> None:
    """Run the compiled program in a fork, with files as stdin and stdout, and read its output."""
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


def serve_forks() -> None:
    """Call run_fork from a warm interpreter: one round for each line of input. Print the seconds of each call."""
    import gc

    code = compile(SOURCE, "solution.py", "exec")
    gc.freeze()
    answers = os.fdopen(os.dup(1), "w")
    for _ in os.fdopen(os.dup(0)):
        print(json.dumps(time_calls(lambda: run_fork(code))), file=answers, flush=True)


def time_calls(function: Callable[[], object], times: int = PER_ROUND) -> list[float]:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return seconds


def start_python(code: str, *interpreter: str) -> Any:
    """Start an interpreter that gets the paths of this one as arguments."""
    command = [*interpreter, "-c", code, *sys.path]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def measure_latencies() -> dict[str, list[float]]:
    """Return the seconds of each repetition, by the name of the measurement."""
    seconds: dict[str, list[float]] = {name: [] for name in ("ours", "suite", "subprocess", "fork")}
    server = start_python(_FORK_SERVER, INTERPRETER, "-S")
    with Sandbox(workers=1) as box:
        box.judge(PROGRAM, ONE)
        for _ in range(ROUNDS):
            seconds["ours"] += time_calls(lambda: box.judge(PROGRAM, ONE))
            seconds["suite"] += [each / 50 for each in time_calls(lambda: box.judge(PROGRAM, FIFTY), 4)]
            seconds["subprocess"] += time_calls(run_subprocess)
            print(file=server.stdin, flush=True)
            seconds["fork"] += json.loads(server.stdout.readline())
    server.communicate()
    return seconds


def measure_throughputs(cores: int) -> dict[str, list[float]]:
    """Return the tests per second and core, for each round."""
    rates: dict[str, list[float]] = {"ours": [], "subprocess": []}
    with Sandbox(workers=cores) as box, ThreadPoolExecutor(cores) as threads:
        list(box.judge_many([(PROGRAM, FIFTY)] * cores))
        for _ in range(ROUNDS):
            [seconds] = time_calls(lambda: list(box.judge_many([(PROGRAM, FIFTY)] * (8 * cores))), 1)
            rates["ours"].append(8 * 50 / seconds)
            [seconds] = time_calls(lambda: list(threads.map(lambda _: run_subprocess(), range(50 * cores))), 1)
            rates["subprocess"].append(50 / seconds)
    return rates


def measure_idle_memory() -> dict[str, float]:
    """Return the memory in MB of an idle supervisor, and of one idle worker with its three processes."""
    supervisor = start_python(_IDLE_SANDBOX, sys.executable)
    supervisor.stdout.readline()
    process = psutil.Process(supervisor.pid)
    sizes = {
        "supervisor_rss": process.memory_info().rss / 2**20,
        "worker_pss": sum(child.memory_full_info().pss for child in process.children(recursive=True)) / 2**20,
    }
    supervisor.communicate("\n")
    return sizes


def compute_percentile_ms(seconds: list[float], percent: int) -> float:
    return sorted(seconds)[percent * (len(seconds) - 1) // 100] * 1e3


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    results = {
        "machine": describe_machine(),
        "rounds": ROUNDS,
        "milliseconds": {
            name: {f"p{p}": compute_percentile_ms(seconds, p) for p in (50, 99)}
            for name, seconds in measure_latencies().items()
        },
        "tests_per_second_and_core": {
            name: statistics.median(rates) for name, rates in measure_throughputs(cores).items()
        },
        "memory_mb": measure_idle_memory(),
    }
    save_results("sandbox", results)


if __name__ == "__main__":
    main()
