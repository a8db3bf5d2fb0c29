"""Memory and process limits over a whole process tree, by cgroup v1 or v2, where one is writable.

Each worker has one cgroup; its zygotes and all their runs live in it. Peak memory of a run is the highest charge
during the run less the charge just before it: anonymous pages, /tmp, pipes, page tables and kernel objects of all
its processes. Pages of the interpreter that the run does not write to are the zygote's and not counted.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "curate-sandbox-"
_SLACK_MB = 16  # what a zygote may need for itself while a run uses all of its own
_MB = 1 << 20


class CannotJoin(Exception):
    """A cgroup was made, but processes may not be moved into it."""


class Cgroup:
    """The cgroup of this process's runs; all methods raise OSError when the kernel refuses."""

    def __init__(self, directories: dict[str, Path], version: int) -> None:
        self.version = version
        self._directories = directories
        memory, pids = directories["memory"], directories["pids"]
        v1 = version == 1
        self._limit_file = memory / ("memory.limit_in_bytes" if v1 else "memory.max")
        self._pids_file = pids / "pids.max"
        self._usage = _open(memory / ("memory.usage_in_bytes" if v1 else "memory.current"))
        self._events = _open(memory / ("memory.oom_control" if v1 else "memory.events"))
        self._peak = -1
        with contextlib.suppress(OSError):  # v2 before Linux 5.19 has no peak, before 6.12 none to reset
            self._peak = _open(memory / ("memory.max_usage_in_bytes" if v1 else "memory.peak"), os.O_RDWR)
            os.pwrite(self._peak, b"0", 0)
        with contextlib.suppress(OSError):
            (memory / ("memory.swappiness" if v1 else "memory.swap.max")).write_text("0")
        self._limits = (0, 0)
        self._before = 0
        self._kills_before = 0

    def add(self, pid: int) -> None:
        """Raises CannotJoin."""
        try:
            for directory in set(self._directories.values()):
                (directory / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise CannotJoin(str(error)) from error

    def begin(self, memory_mb: int, processes: int) -> None:
        """Set the limits of the next run and note where its counters start."""
        self._before = int(os.pread(self._usage, 32, 0))
        self._kills_before = self._kills()
        if self._limits != (memory_mb, processes):
            self._limit_file.write_text(str((memory_mb + _SLACK_MB) * _MB + self._before))
            self._pids_file.write_text(str(processes + 3))  # the zygotes and the run's init
            self._limits = (memory_mb, processes)
        if self._peak >= 0:
            os.pwrite(self._peak, b"0", 0)

    def end(self) -> tuple[float | None, bool]:
        """Peak memory of the run in MB (None: this kernel does not tell), and whether it hit the limit."""
        killed = self._kills() > self._kills_before
        if self._peak < 0:
            return None, killed
        return max(0, int(os.pread(self._peak, 32, 0)) - self._before) / _MB, killed

    def _kills(self) -> int:
        found = re.search(rb"^oom_kill (\d+)", os.pread(self._events, 4096, 0), re.MULTILINE)
        return int(found[1]) if found else 0

    def remove(self) -> None:
        """Remove the cgroup; its processes must be dead already."""
        for descriptor in (self._usage, self._events, self._peak):
            if descriptor >= 0:
                os.close(descriptor)
        for directory in set(self._directories.values()):
            _remove(directory)


def create() -> Cgroup:
    """A new cgroup for this process's runs. Raises OSError, with the reason, where none can be made."""
    name = f"{_PREFIX}{os.getpid()}-{_start_time(os.getpid())}"
    reasons = []
    for version, bases in _bases():
        made: dict[str, Path] = {}
        try:
            for controller, base in bases.items():
                made[controller] = base / name
                made[controller].mkdir(exist_ok=True)
            return Cgroup(made, version)
        except OSError as error:
            reasons.append(f"v{version}: {error}")
            for directory in set(made.values()):
                _remove(directory)
    raise OSError("; ".join(reasons) or "no cgroup hierarchy with memory and pids controllers is mounted")


def sweep() -> None:
    """Remove what workers that were killed have left behind."""
    for _, bases in _bases():
        for base in set(bases.values()):
            for directory in base.glob(f"{_PREFIX}*"):
                pid, started = directory.name.removeprefix(_PREFIX).split("-")
                if _start_time(int(pid)) != started:
                    _remove(directory)


def _bases() -> Iterator[tuple[int, dict[str, Path]]]:
    """(version, {controller: directory in which a cgroup may be made}), in order of preference."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, point = left.split()[3:5]
            for controller in ["v2"] if kind == "cgroup2" else options.split(","):
                mounts.setdefault(controller, (root, point))
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(",") if controllers else ["v2"]:
            if controller in mounts:
                root, point = mounts[controller]
                own[controller] = Path(point, os.path.relpath(path, root))
    if "v2" in own:
        for base in (own["v2"], *own["v2"].parents):
            if _delegates(base):
                yield 2, dict.fromkeys(("memory", "pids"), base)
                break
    if "memory" in own and "pids" in own:
        yield 1, {name: own[name] for name in ("memory", "pids", "cpu") if name in own}


def _delegates(base: Path) -> bool:
    """Whether cgroups made in `base` have the controllers we need."""
    try:
        enabled = (base / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    return {"memory", "pids"} <= set(enabled) and os.access(base, os.W_OK)


def _remove(directory: Path) -> None:
    for _ in range(100):  # a process that was killed leaves its cgroup a moment later
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return


def _start_time(pid: int) -> str:
    """Distinguishes a process from a later one with the same pid; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def _open(path: Path, flags: int = os.O_RDONLY) -> int:
    return os.open(path, flags | os.O_CLOEXEC)
