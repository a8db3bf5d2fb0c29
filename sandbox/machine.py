"""Available memory and processors: the machine's, or less if the cgroups of this process limit them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_MB = 1 << 20
_MEMORY_LIMIT_FILES = {"v2": "memory.max", "memory": "memory.limit_in_bytes"}  # by key of find_cgroups


def get_available_memory_mb() -> int:
    """Return the total memory for this process and its workers, in MB: of the machine, or of a cgroup limit."""
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    minimum = int(total.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError):
        minimum = min([minimum, *read_memory_limits(*read_memberships_and_mounts())])
    return max(1, minimum // _MB)


def count_cpus() -> int:
    """Return the number of processors for this process and its workers."""
    minimum = float(len(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError, ValueError):
        minimum = min([minimum, *read_cpu_quotas(*read_memberships_and_mounts())])
    return max(1, int(minimum))  # rounded down: with one more, workers would compete for processors


def read_memberships_and_mounts() -> tuple[str, str]:
    """Read the cgroup memberships and the mounts of this process. Raises OSError."""
    return Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()


def find_cgroups(memberships: str, mounts: str) -> dict[str, tuple[Path, Path]]:
    """Return the cgroups of a process: controller, or "v2" for the unified hierarchy -> (mount point, directory)."""
    mounted: dict[str, tuple[str, str]] = {}
    for line in mounts.splitlines():
        left, right = line.split(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, point = left.split()[3:5]
            for controller in ["v2"] if kind == "cgroup2" else options.split(","):
                mounted.setdefault(controller, (root, point))
    found: dict[str, tuple[Path, Path]] = {}
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(",") if controllers else ["v2"]:
            if controller in mounted:
                root, point = mounted[controller]
                found[controller] = Path(point), Path(point, os.path.relpath(path, root))
    return found


def read_memory_limits(memberships: str, mounts: str) -> Iterator[int]:
    """Yield the memory limits of these cgroups and their mounted ancestors."""
    for controller, name in _MEMORY_LIMIT_FILES.items():
        for directory in _list_enclosing_directories(controller, memberships, mounts):
            with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
                yield int((directory / name).read_text())


def read_cpu_quotas(memberships: str, mounts: str) -> Iterator[float]:
    """Yield the processor limits of these cgroups and their mounted ancestors."""
    for directory in _list_enclosing_directories("v2", memberships, mounts):
        with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
            quota, period = (directory / "cpu.max").read_text().split()
            yield int(quota) / int(period)
    for directory in _list_enclosing_directories("cpu", memberships, mounts):
        with contextlib.suppress(OSError, ValueError):
            quota, period = ((directory / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if int(quota) > 0:  # -1: no quota
                yield int(quota) / int(period)


def _list_enclosing_directories(controller: str, memberships: str, mounts: str) -> Iterator[Path]:
    """Yield the directories of this controller's cgroup and its ancestors, innermost first."""
    found = find_cgroups(memberships, mounts)
    if controller in found:
        point, directory = found[controller]
        while directory.is_relative_to(point):
            yield directory
            directory = directory.parent
