"""Available memory and processors: those of the machine, or less if the cgroups of this process limit them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_MB = 1 << 20
_LIMITS = {"v2": "memory.max", "memory": "memory.limit_in_bytes"}  # files of the cgroups that bound memory


def available_memory_mb() -> int:
    """Return the megabytes that this process and all its workers may use together."""
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    least = int(total.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError):
        least = min([least, *cgroup_limits(*memberships_and_mounts())])
    return max(1, least // _MB)


def cpu_count() -> int:
    """Return the number of processors that this process and all its workers can keep busy together."""
    least = float(len(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError, ValueError):
        least = min([least, *cpu_quotas(*memberships_and_mounts())])
    return max(1, int(least))  # rounded down: a fraction of a processor would slow down each worker


def memberships_and_mounts() -> tuple[str, str]:
    """Read the cgroup memberships and the mounts of this process. Raises OSError."""
    return Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()


def cgroups(memberships: str, mounts: str) -> dict[str, tuple[Path, Path]]:
    """Return the cgroups that a process is in, by controller, or "v2" for the unified hierarchy.

    Each has two paths: the mount point of its hierarchy, and the cgroup's directory below it.
    """
    mounted: dict[str, tuple[str, str]] = {}
    for line in mounts.splitlines():
        left, right = line.split(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, point = left.split()[3:5]
            for controller in ["v2"] if kind == "cgroup2" else options.split(","):
                mounted.setdefault(controller, (root, point))
    own: dict[str, tuple[Path, Path]] = {}
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(",") if controllers else ["v2"]:
            if controller in mounted:
                root, point = mounted[controller]
                own[controller] = Path(point), Path(point, os.path.relpath(path, root))
    return own


def cgroup_limits(memberships: str, mounts: str) -> Iterator[int]:
    """Yield the memory limits of these cgroups and their ancestors, as far as they are mounted."""
    for controller, name in _LIMITS.items():
        for directory in _around(controller, memberships, mounts):
            with contextlib.suppress(OSError, ValueError):  # none there, or "max"
                yield int((directory / name).read_text())


def cpu_quotas(memberships: str, mounts: str) -> Iterator[float]:
    """Yield the processor limits of these cgroups and their ancestors, as far as they are mounted."""
    for directory in _around("v2", memberships, mounts):
        with contextlib.suppress(OSError, ValueError):  # none there, or "max"
            quota, period = (directory / "cpu.max").read_text().split()
            yield int(quota) / int(period)
    for directory in _around("cpu", memberships, mounts):
        with contextlib.suppress(OSError, ValueError):
            quota, period = ((directory / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if int(quota) > 0:  # -1: no quota
                yield int(quota) / int(period)


def _around(controller: str, memberships: str, mounts: str) -> Iterator[Path]:
    """Yield the directories of this controller's cgroup and its ancestors, from the inside out."""
    own = cgroups(memberships, mounts)
    if controller in own:
        point, directory = own[controller]
        while directory.is_relative_to(point):
            yield directory
            directory = directory.parent
