"""Weak scaling of a Ray cluster, and the CPU time of the calling process:  python -m benchmarks.ray

All nodes are on this machine, so the programs sleep: programs that compute would share its cores. For the calling
process, workers only sleep and respond: all communication is real, but nothing is judged.
"""

import contextlib
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
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
WORKERS = 4  # of a node
SLEEP_SECONDS = 0.25
PER_WORKER = 40
CALLER_NODES, CALLER_WORKERS, CALLER_SECONDS = 2, 64, 5  # nodes, workers of each, seconds of a measurement
SUITE = Suite([Case("hello\n", "hello\n")])


@contextlib.contextmanager
def start_cluster(nodes: int) -> Iterator[str]:
    """Yield the address of a cluster. Its head offers no CPUs, and each node one."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    Path("/tmp/ray").mkdir(exist_ok=True)  # Ray always writes the address there
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


def make_sleeping_submissions(count: int) -> Iterator[tuple[Program, Suite]]:
    source = f"import time; time.sleep({SLEEP_SECONDS}); print(input())"
    return ((Program(f"{source}  # {number}"), SUITE) for number in range(count))


def measure_weak_scaling(nodes: int) -> dict[str, float]:
    """Return the rate of a cluster, and its share of the rate without overhead."""
    with start_cluster(nodes) as address, Sandbox(backend="ray", address=address, workers=WORKERS) as box:
        list(box.judge_many(make_sleeping_submissions(4 * box.workers)))  # starts all workers
        started = time.perf_counter()
        judged = list(box.judge_many(make_sleeping_submissions(PER_WORKER * box.workers)))
        seconds = time.perf_counter() - started
    assert all(judgement.accepted for _, judgement in judged)
    row = {"nodes": nodes, "workers": nodes * WORKERS, "per_second": len(judged) / seconds}
    return {**row, "share_of_ideal": PER_WORKER * SLEEP_SECONDS / seconds}


class SleepingBox:
    """A pool of workers that sleep as long as a judgement would take, and accept."""

    workers = CALLER_WORKERS

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[JudgeRequest, Callable[[Judgement], None]]] = queue.SimpleQueue()
        for _ in range(CALLER_WORKERS):
            threading.Thread(target=self._serve_requests, daemon=True).start()

    def submit(self, request: JudgeRequest, done: Callable[[Judgement], None]) -> None:
        self._requests.put((request, done))

    def close(self) -> None: ...

    def _serve_requests(self) -> None:
        while True:
            request, done = self._requests.get()
            time.sleep(float(request.program.source))
            n_cases = len(request.suite.cases)
            cases = tuple(CaseJudgement(Verdict.ACCEPTED, 0.01, 0.01, 1.0) for _ in range(n_cases))
            done(Judgement(Verdict.ACCEPTED, cases, n_cases))


class SleepingSupervisor(NodeSupervisor):
    """A node whose workers sleep."""

    def start(self, *about: Any) -> tuple[int, dict[str, str]]:
        self._box = SleepingBox()  # type: ignore[assignment]
        return CALLER_WORKERS, {}


def measure_caller() -> list[dict[str, float]]:
    """Return the CPU time of the calling process per submission, without its idle CPU time."""
    rows = []
    real, backend.NodeSupervisor = backend.NodeSupervisor, SleepingSupervisor  # type: ignore[misc]
    with start_cluster(CALLER_NODES) as address, Sandbox(backend="ray", address=address) as box:
        idle_began = time.process_time()
        time.sleep(CALLER_SECONDS)
        idle = (time.process_time() - idle_began) / CALLER_SECONDS
        for kilobytes, wait_seconds in ((4, 0.1), (4, 1.0), (100, 0.1), (100, 1.0)):
            count = int(CALLER_SECONDS / wait_seconds) * box.workers
            pairs = [(Program(f"{wait_seconds}"), make_suite(kilobytes, number)) for number in range(count)]
            began, cpu_began = time.perf_counter(), time.process_time()
            assert len(list(box.judge_many(pairs))) == count
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
            milliseconds = (cpu - idle * seconds) / count * 1e3
            rows.append({"kilobytes": kilobytes, "seconds": wait_seconds, "cpu_milliseconds": milliseconds})
    backend.NodeSupervisor = real  # type: ignore[misc]
    return rows


def make_suite(kilobytes: int, number: int) -> Suite:
    """Return a suite of fifteen cases that no other suite has."""
    half = "x" * (kilobytes * 1000 // 30)
    return Suite([Case(f"{number} {case} {half}", f"{case} {number} {half}") for case in range(15)])


def main() -> None:
    rows = [measure_weak_scaling(nodes) for nodes in NODES]
    save_results("ray", {"machine": describe_machine(), "weak_scaling": rows, "caller": measure_caller()})


if __name__ == "__main__":
    main()
