"""Measure how a Ray cluster scales and the CPU time of the calling process, compared with local workers.

    python -m benchmarks.ray

The nodes are all on this machine, so programs that compute cannot show scaling. Weak scaling is therefore measured with
programs that sleep. The calling process's CPU time for a submission limits how many nodes it can keep busy. It is
measured with nodes whose workers only sleep and reply: all communication is real, but nothing is judged.
"""

import contextlib
import json
import os
import queue
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_enable_worker_prestart": "0"}

from ray.cluster_utils import Cluster

from benchmarks.machine import describe
from sandbox import Case, Judgement, Program, Sandbox, Suite, Verdict
from sandbox.backends import ray as backend
from sandbox.backends._supervisor import NodeSupervisor
from sandbox.judge import CaseJudgement
from sandbox.request import JudgeRequest

RESULTS = Path(__file__).parent / "results" / "ray.json"
NODES = (1, 2, 4)
WORKERS = 4  # of a node, for weak scaling
SLEEP_SECONDS = 0.25
PER_WORKER = 40
LARGE = 64  # workers of a node that only sleeps and replies
ROUND_SECONDS = 5
HUNDRED = 100  # nodes of that size
TEXT = "hello\n"


@contextlib.contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """Yield the address of a cluster whose head offers no processors while each of its nodes offers one."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    Path("/tmp/ray").mkdir(exist_ok=True)  # Ray writes the address there, whatever its folder
    nodes_of = Cluster()
    try:
        for processors in (0, *[1] * nodes):
            nodes_of.add_node(
                num_cpus=processors, object_store_memory=200 << 20, include_dashboard=False, temp_dir=folder
            )
        yield nodes_of.address
    finally:
        nodes_of.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def submissions(count: int, source: str, suite: Suite) -> Iterator[tuple[Program, Suite]]:
    return ((Program(f"{source}  # {number}"), suite) for number in range(count))


def weak_scaling() -> list[dict[str, float]]:
    """Measure weak scaling: the slowdown with more nodes and the same amount of work per node."""
    rows = []
    source, suite = f"import time; time.sleep({SLEEP_SECONDS}); print(input())", Suite([Case(TEXT, TEXT)])
    for nodes in NODES:
        with cluster(nodes) as address, Sandbox(backend="ray", address=address, workers=WORKERS) as box:
            list(box.judge_many(submissions(4 * box.workers, source, suite)))  # all workers are started
            started = time.perf_counter()
            judged = list(box.judge_many(submissions(PER_WORKER * box.workers, source, suite)))
            seconds = time.perf_counter() - started
        assert all(judgement.accepted for _, judgement in judged)
        rows.append(
            {
                "nodes": nodes,
                "workers": nodes * WORKERS,
                "per_second": len(judged) / seconds,
                "share_of_ideal": PER_WORKER * SLEEP_SECONDS / seconds,
            }
        )
    return rows


def computing(cores: int, rounds: int = 5) -> dict[str, float]:
    """Return tests per second, with programs that compute, in submissions of fifty tests.

    Compare one single-worker node for each core with one local worker for each core.
    """
    suite = Suite([Case(TEXT, TEXT)] * 50)
    rates: dict[str, list[float]] = {"ray": [], "local": []}
    with (
        cluster(cores) as address,
        Sandbox(backend="ray", address=address) as there,
        Sandbox(workers=cores) as here,
    ):
        for box in (there, here):
            list(box.judge_many(submissions(4 * cores, "print(input())", suite)))
        for _ in range(rounds):
            for name, box in (("ray", there), ("local", here)):
                started = time.perf_counter()
                judged = list(box.judge_many(submissions(16 * cores, "print(input())", suite)))
                rates[name].append(len(judged) * 50 / (time.perf_counter() - started))
    return {name: statistics.median(values) for name, values in rates.items()}


class SleepingBox:
    """A pool of workers without judging: each sleeps as long as a judgement would take and then accepts."""

    workers = LARGE

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[JudgeRequest, Callable[[Judgement], None]]] = queue.SimpleQueue()
        for _ in range(LARGE):
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
    """A node with such workers."""

    def start(self, *about: Any) -> tuple[int, dict[str, str]]:
        self._box = SleepingBox()  # type: ignore[assignment]
        return LARGE, {}


def asking(nodes: int = 2) -> list[dict[str, float]]:
    """Return the CPU time that the calling process spends per submission.

    This includes its Ray threads, minus their use when idle.
    """
    rows = []
    real, backend.NodeSupervisor = backend.NodeSupervisor, SleepingSupervisor  # type: ignore[misc]
    with cluster(nodes) as address, Sandbox(backend="ray", address=address) as box:
        idle = cpu_seconds(lambda: time.sleep(5)) / 5
        for kilobytes, wait_seconds in ((4, 0.1), (4, 1.0), (100, 0.1), (100, 1.0)):
            count = int(ROUND_SECONDS / wait_seconds) * box.workers
            pairs = [(Program(f"{wait_seconds}"), suite(kilobytes, number)) for number in range(count)]
            started = time.perf_counter()
            cpu = cpu_seconds(lambda: sum(1 for _ in box.judge_many(pairs)))  # noqa: B023
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


def hundred_nodes(measured: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the submissions and megabytes per second, and the cores of the caller, that keep a hundred nodes busy."""
    rows = []
    for row in measured:
        per_second = HUNDRED * LARGE / row["seconds"]
        rows.append(
            {
                "kilobytes": row["kilobytes"],
                "seconds": row["seconds"],
                "per_second": per_second,
                "megabytes_per_second": per_second * row["kilobytes"] / 1e3,
                "processors": per_second * row["cpu_milliseconds"] / 1e3,
            }
        )
    return rows


def suite(kilobytes: int, number: int) -> Suite:
    """Return a suite of fifteen cases, none of which occurs in another suite."""
    half = "x" * (kilobytes * 1000 // 30)
    return Suite([Case(f"{number} {case} {half}", f"{case} {number} {half}") for case in range(15)])


def cpu_seconds(function: Callable[[], object]) -> float:
    before = time.process_time()
    function()
    return time.process_time() - before


def main() -> None:
    spent = asking()
    result = {
        "machine": describe(),
        "sleep_seconds": SLEEP_SECONDS,
        "weak_scaling": weak_scaling(),
        "tests_per_second": computing(len(os.sched_getaffinity(0))),
        "workers_of_a_large_node": LARGE,
        "asking": spent,
        "hundred_nodes": hundred_nodes(spent),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
