"""Measure a trivial test in the docker backend, in the local backend, and in one new container per test (`docker run`).

    python -m benchmarks.docker        needs an engine and its image (make sandbox-image)

The three alternate in every round, as in sandbox.py, which defines the measurements.
"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from benchmarks.record import describe_machine, save_results
from benchmarks.sandbox import (
    FIFTY,
    PROGRAM,
    SOURCE,
    TEXT,
    calls_per_second,
    medians,
    summarize_latencies,
    tests_per_second,
    time_box,
    time_calls,
)
from sandbox import Sandbox
from sandbox.image import TAG

ROUNDS = 10
PER_ROUND = 50


def run_container() -> None:
    """Run one test in a new container with the backend's limits."""
    bounds = ["--network=none", "--read-only", "--cap-drop=ALL", "--memory=512m", "--pids-limit=128", "--user=65534"]
    command = ["docker", "run", "--rm", "--interactive", *bounds, "--entrypoint=/usr/bin/python3", TAG, "-c", SOURCE]
    done = subprocess.run(command, input=TEXT, capture_output=True, text=True)
    assert done.stdout == TEXT, done.stderr


def latencies() -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {
        name: [] for name in ("docker", "docker_suite", "local", "local_suite", "docker_run")
    }
    with Sandbox(workers=1, backend="docker") as containers, Sandbox(workers=1) as here:
        boxes = {"docker": containers, "local": here}
        for box in boxes.values():
            box.judge(PROGRAM, FIFTY)
        for _ in range(ROUNDS):
            for name, box in boxes.items():
                one, fifty = time_box(box, PER_ROUND)
                seconds[name] += one
                seconds[f"{name}_suite"] += fifty
            seconds["docker_run"] += time_calls(run_container, times=4)
    return seconds


def throughputs(cores: int) -> dict[str, list[float]]:
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
        for _ in range(ROUNDS):
            for name, box in boxes.items():
                rates[name].append(tests_per_second(box, cores))
            rates["docker_run"].append(calls_per_second(run_container, 4 * cores, threads))
    return rates


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    results = {
        "machine": describe_machine(),
        "rounds": ROUNDS,
        "cores": cores,
        "milliseconds": summarize_latencies(latencies()),
        "tests_per_second": medians(throughputs(cores)),
    }
    save_results("docker", results)


if __name__ == "__main__":
    main()
