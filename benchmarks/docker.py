"""Measure a trivial test in the docker backend, in the local backend, and in one new container per test (`docker run`).

    python -m benchmarks.docker [ROUNDS]        needs an engine and its image (make sandbox-image)

The three alternate in every round, so that other load on the machine affects them alike. Latency is measured one test
at a time, from sending the input until the output is compared; `suite` is the latency per test of a submission with
fifty tests. Throughput is measured with one test per core at a time.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.sandbox import SOURCE, TEXT, percentile, timed
from sandbox import Case, Program, Sandbox, Suite
from sandbox.image import TAG

PER_ROUND = 50
RESULTS = Path(__file__).parent / "results" / "docker.json"
PROGRAM, ONE, FIFTY = Program(SOURCE), Suite([Case(TEXT, TEXT)]), Suite([Case(TEXT, TEXT)] * 50)


def docker_run() -> None:
    """Run one test in a new container with the backend's limits."""
    bounds = ["--network=none", "--read-only", "--cap-drop=ALL", "--memory=512m", "--pids-limit=128", "--user=65534"]
    command = ["docker", "run", "--rm", "--interactive", *bounds, "--entrypoint=/usr/bin/python3", TAG, "-c", SOURCE]
    done = subprocess.run(command, input=TEXT, capture_output=True, text=True)
    assert done.stdout == TEXT, done.stderr


def latencies(rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {}
    with Sandbox(workers=1, backend="docker") as containers, Sandbox(workers=1) as here:
        for box in (containers, here):
            box.judge(PROGRAM, FIFTY)
        for _ in range(rounds):
            for name, box in (("docker", containers), ("local", here)):
                seconds.setdefault(name, []).extend(timed(lambda box=box: box.judge(PROGRAM, ONE), PER_ROUND))
                suites = timed(lambda box=box: box.judge(PROGRAM, FIFTY), times=4)
                seconds.setdefault(f"{name}_suite", []).extend(total / 50 for total in suites)
            seconds.setdefault("docker_run", []).extend(timed(docker_run, times=4))
    return seconds


def throughputs(rounds: int, cores: int) -> dict[str, list[float]]:
    """Return the tests per second on all cores, for each round."""
    rates: dict[str, list[float]] = {"docker": [], "local": [], "docker_run": []}
    with (
        Sandbox(workers=cores, backend="docker") as containers,
        Sandbox(workers=cores) as here,
        ThreadPoolExecutor(cores) as threads,
    ):
        boxes = {"docker": containers, "local": here}
        for box in boxes.values():
            list(box.judge_many([(PROGRAM, FIFTY)] * cores))
        for _ in range(rounds):
            for name, box in boxes.items():
                started = time.perf_counter()
                judged = list(box.judge_many([(PROGRAM, FIFTY)] * (8 * cores)))
                rates[name].append(len(judged) * 50 / (time.perf_counter() - started))
            started = time.perf_counter()
            list(threads.map(lambda _: docker_run(), range(4 * cores)))
            rates["docker_run"].append(4 * cores / (time.perf_counter() - started))
    return rates


def start() -> float:
    """Return the seconds until a Sandbox with one container is ready."""
    started = time.perf_counter()
    with Sandbox(workers=1, backend="docker"):
        return time.perf_counter() - started


def main(rounds: int) -> None:
    cores = len(os.sched_getaffinity(0))
    seconds, rates = latencies(rounds), throughputs(rounds, cores)
    result = {
        "machine": describe(),
        "rounds": rounds,
        "cores": cores,
        "milliseconds": {
            name: {"p50": statistics.median(values) * 1e3, "p99": percentile(values, 0.99) * 1e3}
            for name, values in seconds.items()
        },
        "tests_per_second": {name: statistics.median(values) for name, values in rates.items()},
        "start_seconds": statistics.median(start() for _ in range(5)),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
