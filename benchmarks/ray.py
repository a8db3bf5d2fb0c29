"""Measure how a Ray cluster scales, and the CPU time of the calling process.

    python -m benchmarks.ray

The nodes are all on this machine, so programs that compute cannot show scaling. Weak scaling is therefore measured with
programs that sleep. The calling process's CPU time for a submission limits how many nodes it can keep busy. It is
measured with nodes whose workers only sleep and reply: all communication is real, but nothing is judged.
"""

import contextlib
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_enable_worker_prestart": "0"}

from ray.cluster_utils import Cluster

from benchmarks.record import describe_machine, save_results
from sandbox import Case, Judgement, Program, Sandbox, Suite, Verdict
from sandbox.backends import ray as backend
from sandbox.backends._supervisor import NodeSupervisor
from sandbox.judge import CaseJudgement
from sandbox.request import JudgeRequest

NODES = (1, 2, 4)
WORKERS = 4  # of a node, for weak scaling
SLEEP_SECONDS = 0.25
PER_WORKER = 40
LARGE_WORKERS = 64  # of a node that only sleeps and replies
LARGE_NODES = 100  # for the extrapolation
ROUND_SECONDS = 5
TEXT = "hello\n"


@contextlib.contextmanager
def start_cluster(nodes: int) -> Iterator[str]:
    """Yield the address of a cluster. Its head offers no processors, each of its nodes one."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    Path("/tmp/ray").mkdir(exist_ok=True)  # Ray writes the address there, whatever its folder
    cluster = Cluster()
    try:
        for processors in (0, *[1] * nodes):
            cluster.add_node(
                num_cpus=processors, object_store_memory=200 << 20, include_dashboard=False, temp_dir=folder
            )
        yield cluster.address
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def submissions(count: int, source: str, suite: Suite) -> Iterator[tuple[Program, Suite]]:
    return ((Program(f"{source}  # {number}"), suite) for number in range(count))


def measure_weak_scaling() -> list[dict[str, float]]:
    """Measure weak scaling: the slowdown with more nodes and the same amount of work per node."""
    rows = []
    source, suite = f"import time; time.sleep({SLEEP_SECONDS}); print(input())", Suite([Case(TEXT, TEXT)])
    for nodes in NODES:
        with start_cluster(nodes) as address, Sandbox(backend="ray", address=address, workers=WORKERS) as box:
            list(box.judge_many(submissions(4 * box.workers, source, suite)))  # starts all workers
            started = time.perf_counter()
            judged = list(box.judge_many(submissions(PER_WORKER * box.workers, source, suite)))
            seconds = time.perf_counter() - started
        assert all(judgement.accepted for _, judgement in judged)
        row = {"nodes": nodes, "workers": nodes * WORKERS, "per_second": len(judged) / seconds}
        rows.append({**row, "share_of_ideal": PER_WORKER * SLEEP_SECONDS / seconds})
    return rows


class SleepingBox:
    """A pool of workers that sleep as long as a judgement would take, and accept."""

    workers = LARGE_WORKERS

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[JudgeRequest, Callable[[Judgement], None]]] = queue.SimpleQueue()
        for _ in range(LARGE_WORKERS):
            threading.Thread(target=self._wait, daemon=True).start()

    def submit(self, request: JudgeRequest, done: Callable[[Judgement], None]) -> None:
        self._requests.put((request, done))

    def close(self) -> None: ...

    def _wait(self) -> None:
        while True:
            request, done = self._requests.get()
            time.sleep(float(request.program.source))
            suite = request.suite
            accepted = CaseJudgement(Verdict.ACCEPTED, 0.01, 0.01, 1.0)
            done(Judgement(Verdict.ACCEPTED, tuple(replace(accepted) for _ in suite.cases), len(suite.cases)))


class SleepingSupervisor(NodeSupervisor):
    """A node whose workers sleep."""

    def start(self, *about: Any) -> tuple[int, dict[str, str]]:
        self._box = SleepingBox()  # type: ignore[assignment]
        return LARGE_WORKERS, {}


def measure_caller(nodes: int = 2) -> list[dict[str, float]]:
    """Return the CPU time that the calling process spends per submission, its Ray threads included.

    The CPU time of the idle process is subtracted.
    """
    rows = []
    real, backend.NodeSupervisor = backend.NodeSupervisor, SleepingSupervisor  # type: ignore[misc]
    with start_cluster(nodes) as address, Sandbox(backend="ray", address=address) as box:
        idle = measure_cpu(lambda: time.sleep(5)) / 5
        for kilobytes, wait_seconds in ((4, 0.1), (4, 1.0), (100, 0.1), (100, 1.0)):
            count = int(ROUND_SECONDS / wait_seconds) * box.workers
            pairs = [(Program(f"{wait_seconds}"), make_suite(kilobytes, number)) for number in range(count)]
            started = time.perf_counter()
            cpu = measure_cpu(lambda: sum(1 for _ in box.judge_many(pairs)))  # noqa: B023
            seconds = time.perf_counter() - started
            rows.append(
                {
                    "kilobytes": kilobytes,
                    "seconds": wait_seconds,
                    "per_second": count / seconds,
                    "cpu_milliseconds": (cpu - idle * seconds) / count * 1e3,
                }
            )
    backend.NodeSupervisor = real  # type: ignore[misc]
    return rows


def extrapolate(row: dict[str, float]) -> dict[str, float]:
    """Return the submissions and megabytes per second, and the cores of the caller, that keep LARGE_NODES busy."""
    per_second = LARGE_NODES * LARGE_WORKERS / row["seconds"]
    return {
        "kilobytes": row["kilobytes"],
        "seconds": row["seconds"],
        "per_second": per_second,
        "megabytes_per_second": per_second * row["kilobytes"] / 1e3,
        "processors": per_second * row["cpu_milliseconds"] / 1e3,
    }


def make_suite(kilobytes: int, number: int) -> Suite:
    """Return a suite of fifteen cases that no other suite has."""
    half = "x" * (kilobytes * 1000 // 30)
    return Suite([Case(f"{number} {case} {half}", f"{case} {number} {half}") for case in range(15)])


def measure_cpu(function: Callable[[], object]) -> float:
    before = time.process_time()
    function()
    return time.process_time() - before


def main() -> None:
    caller = measure_caller()
    results = {
        "machine": describe_machine(),
        "sleep_seconds": SLEEP_SECONDS,
        "weak_scaling": measure_weak_scaling(),
        "workers_of_a_large_node": LARGE_WORKERS,
        "asking": caller,
        "hundred_nodes": [extrapolate(row) for row in caller],
    }
    save_results("ray", results)


if __name__ == "__main__":
    main()
