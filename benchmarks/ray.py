"""Weak scaling of a Ray cluster:  python -m benchmarks.ray

All nodes are on this machine, so the programs sleep: programs that compute would share its cores.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_enable_worker_prestart": "0"}

from ray.cluster_utils import Cluster

from benchmarks.record import describe_machine, save_results
from sandbox import Case, Program, Sandbox, Suite

NODES = (1, 2, 4)
WORKERS = 4  # of a node
SLEEP_SECONDS = 0.25
PER_WORKER = 40
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


def main() -> None:
    rows = [measure_weak_scaling(nodes) for nodes in NODES]
    save_results("ray", {"machine": describe_machine(), "weak_scaling": rows})


if __name__ == "__main__":
    main()
