"""The resources of an idle Sandbox: memory, descriptors, processes, mounts, cgroups, temporary files, SysV objects."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.soak.process_family import ProcessFamily

_COMPILATION_NAME_LENGTH = 64  # hexadecimal digits
_MB = 1 << 20
_MAX_SETTLE_SECONDS = 5
_COMPILED = "/memfd:run"  # prefix of the descriptors of compiled programs, of which a worker caches the newest
_COUNT_OBJECTS = """
import os, sys
from sandbox.kernel import linux
for pid in sys.argv[1:]:
    linux.setns(os.open(f"/proc/{pid}/ns/ipc", os.O_RDONLY), linux.CLONE_NEWIPC)
    print(*(len(open(f"/proc/sysvipc/{kind}").readlines()) - 1 for kind in ("shm", "sem", "msg")))
"""


@dataclass(frozen=True, slots=True)
class IdleSandbox:
    """A Sandbox between runs."""

    family: ProcessFamily
    head: psutil.Process
    workers: list[psutil.Process]
    judges: list[psutil.Process]
    zygotes: list[psutil.Process]


@dataclass(frozen=True, slots=True)
class ResourceMeasure:
    """A measured resource.

    max_growth: 0 for counts, more for memory, because allocators retain freed memory
    """

    measure: Callable[[IdleSandbox], float]
    max_growth: float = 0


def sample_resources(family: ProcessFamily, measures: Mapping[str, ResourceMeasure] | None = None) -> dict[str, float]:
    """Return measured values, by default of all MEASURES, after the cleanup of the last run. Omit unreadable ones."""
    measures = measures or MEASURES
    previous: dict[str, float] = {}
    end = time.monotonic() + _MAX_SETTLE_SECONDS
    while True:
        late = time.monotonic() > end
        try:
            held = _take_measures(family, measures)
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):  # not idle yet
            if late:
                raise
            held = {}
        counts = {name: value for name, value in held.items() if measures[name].max_growth == 0}
        if late or (held and counts == previous):
            return held
        previous = counts
        time.sleep(0.05)


def _take_measures(family: ProcessFamily, measures: Mapping[str, ResourceMeasure]) -> dict[str, float]:
    workers = family.find_workers()
    judges = [judge for children in workers.values() for judge in children.judges]
    zygotes = [zygote for children in workers.values() for zygote in children.zygotes]
    idle = IdleSandbox(family, family.head, list(workers), judges, zygotes)
    return {name: taken for name, measure in measures.items() if (taken := _measure(measure, idle)) is not None}


def _measure(measure: ResourceMeasure, idle: IdleSandbox) -> float | None:
    try:
        return measure.measure(idle)
    except (PermissionError, psutil.AccessDenied):  # in /proc, zygotes belong to root
        return None


def _list_descriptors(processes: Iterable[psutil.Process]) -> list[tuple[Path, str]]:
    """Return (entry below /proc, target) of each open descriptor."""
    found = []
    for process in processes:
        for entry in list(Path(f"/proc/{process.pid}/fd").iterdir()):
            with contextlib.suppress(FileNotFoundError):  # the descriptor of this listing
                found.append((entry, os.readlink(entry)))
    return found


def _count_worker_descriptors(idle: IdleSandbox) -> int:
    return sum(not name.startswith(_COMPILED) for _, name in _list_descriptors([*idle.workers, *idle.judges]))


def _measure_compiled_mb(idle: IdleSandbox) -> float:
    kept = (entry.stat().st_size for entry, name in _list_descriptors(idle.judges) if name.startswith(_COMPILED))
    return sum(kept) / _MB / len(idle.workers)


def _measure_private_mb(idle: IdleSandbox) -> float:
    """Return the anonymous memory. Other sizes include memory shared with other processes."""
    processes = [*idle.workers, *idle.judges, *idle.zygotes]
    sizes = (re.search(r"^RssAnon:\s*(\d+) kB", _read_proc(process, "status"), re.MULTILINE) for process in processes)
    return sum(int(size[1]) for size in sizes if size) / 1024 / len(idle.workers)


def _count_mounts(processes: Iterable[psutil.Process]) -> int:
    return sum(len(_read_proc(process, "mountinfo").splitlines()) for process in processes)


def _count_supervisor_mounts(idle: IdleSandbox) -> int:
    if os.geteuid() != 0:
        raise PermissionError("without root, the supervisor shares its mounts with other processes")
    return _count_mounts([idle.head])


def _read_proc(process: psutil.Process, name: str) -> str:
    return Path(f"/proc/{process.pid}/{name}").read_text()


def _measure_charged_mb(idle: IdleSandbox) -> float:
    """Return the memory charged for the zygotes and for leftovers of runs."""
    files = (
        group / name for group in idle.family.find_cgroups() for name in ("memory.usage_in_bytes", "memory.current")
    )
    return sum(int(file.read_text()) for file in files if file.exists()) / _MB / len(idle.workers)


def _count_temporary_inodes(idle: IdleSandbox) -> int:
    """Count temporary files other than the compilations that workers share, whose total size is limited."""
    walks = (os.walk(directory) for directory in idle.family.find_directories())
    return sum(
        1 + sum(len(name) != _COMPILATION_NAME_LENGTH for name in files) for walk in walks for _, _, files in walk
    )


def _count_root_inodes(idle: IdleSandbox) -> int:
    roots = [os.statvfs(f"/proc/{zygote.pid}/root") for zygote in idle.zygotes]
    return sum(root.f_files - root.f_ffree for root in roots)


def _count_sysv_objects(idle: IdleSandbox) -> int:
    """Count shared memory segments, semaphores and queues, here and in the namespaces of the zygotes."""
    pids = [str(process.pid) for process in [idle.head, *idle.zygotes]]
    counted = subprocess.run([sys.executable, "-c", _COUNT_OBJECTS, *pids], capture_output=True, text=True, check=False)
    if counted.returncode != 0:
        raise PermissionError(counted.stderr)
    return sum(map(int, counted.stdout.split()))


MEASURES = {
    "supervisor RSS, MB": ResourceMeasure(lambda idle: idle.head.memory_info().rss / _MB, max_growth=4),
    "private memory of a worker and its zygotes, MB": ResourceMeasure(_measure_private_mb, max_growth=24),
    "charged to a worker's cgroups, MB": ResourceMeasure(_measure_charged_mb, max_growth=4),
    "compiled programs that a worker keeps, MB": ResourceMeasure(_measure_compiled_mb, max_growth=16),
    "threads of the supervisor": ResourceMeasure(lambda idle: idle.head.num_threads()),
    "descriptors of the supervisor": ResourceMeasure(lambda idle: len(_list_descriptors([idle.head]))),
    "descriptors of workers": ResourceMeasure(_count_worker_descriptors),
    "descriptors of zygotes": ResourceMeasure(lambda idle: len(_list_descriptors(idle.zygotes))),
    "processes": ResourceMeasure(lambda idle: len(idle.family.list_members())),
    "zombies": ResourceMeasure(
        lambda idle: sum(one.status() == psutil.STATUS_ZOMBIE for one in idle.family.list_members())
    ),
    "mounts of the supervisor": ResourceMeasure(_count_supervisor_mounts),
    "mounts of zygotes": ResourceMeasure(lambda idle: _count_mounts(idle.zygotes)),
    "cgroups": ResourceMeasure(lambda idle: len(idle.family.find_cgroups())),
    "temporary inodes": ResourceMeasure(_count_temporary_inodes),
    "inodes in the zygotes' roots": ResourceMeasure(_count_root_inodes),
    "SysV objects": ResourceMeasure(_count_sysv_objects),
}


def compare_first_and_last(samples: Sequence[Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    """Compare the medians of the first and the last quarter of the samples, for resources in all samples."""
    size = max(1, len(samples) // 4)
    found = {}
    for name in samples[0]:
        if all(name in held for held in samples):
            first, last = (round(median(held[name] for held in part), 2) for part in (samples[:size], samples[-size:]))
            found[name] = {"first": first, "last": last, "flat": last - first <= MEASURES[name].max_growth}
    return found
