"""Read rollout files in a small process of its own, which measures what the confined processes cost.

The kernel counts the memory of a process that starts another as if it were the other's, and the tests' own process is
large.
"""

import multiprocessing
import resource
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from train.swarm.files.reader import read_rollout_file
from train.swarm.files.rows import RolloutFile
from train.swarm.messages import SwarmLease
from train.swarm.settings import SwarmSettings
from train.swarm.verdict import LeaseVerdict

MAX_CPU_SECONDS, MAX_MEMORY_KB = 3.1, 2**20


@dataclass(frozen=True)
class Reader:
    """Reads files as `read` does, and fails if one costs more than it may."""

    process: ProcessPoolExecutor

    def __call__(self, content: bytes, lease: SwarmLease, settings: SwarmSettings) -> RolloutFile | LeaseVerdict:
        found, cpu_seconds, memory_kb = self.process.submit(_measured, content, lease, settings).result()
        assert cpu_seconds <= MAX_CPU_SECONDS
        assert 0 < memory_kb <= MAX_MEMORY_KB
        return found


@contextmanager
def reader() -> Iterator[Reader]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        yield Reader(process)


def _measured(
    content: bytes, lease: SwarmLease, settings: SwarmSettings
) -> tuple[RolloutFile | LeaseVerdict, float, int]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = read_rollout_file(content, lease, settings)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found, cpu_seconds, after.ru_maxrss
