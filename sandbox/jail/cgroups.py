"""Memory and process limits over a whole process tree, by cgroup v1 or v2, where one is writable.

Each worker has one cgroup; its zygotes and all their runs live in it. Peak memory of a run is the highest
charge during the run less the charge just before it: anonymous pages, /tmp, pipes, page tables and kernel
objects of all its processes. Pages of the interpreter that the run does not write to are the zygote's and not
counted. Only v1 and, since Linux 6.12, v2 keep a peak for each run.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from sandbox.jail import leftovers

_LEAF = "curate-others"  # of a cgroup that was given to us: where the processes go that were in it
_SLACK_MB = 16  # what a zygote may need for itself while a run uses all of its own
_DRIFT_MB = 4  # by which the idle charge may change before the limit is set anew
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
        self._hits = _open(memory / ("memory.failcnt" if v1 else "memory.events"))
        cpu = directories.get("cpuacct", memory)
        self.cpu_usage = _open(cpu / ("cpuacct.usage" if v1 else "cpu.stat"))  # zygotes count runs by it
        self._peak = _open_peak(memory / ("memory.max_usage_in_bytes" if v1 else "memory.peak"))
        with contextlib.suppress(OSError):
            (memory / ("memory.swappiness" if v1 else "memory.swap.max")).write_text("0")
        self._limit = self._processes = 0
        self._before = 0
        self._kills_before = self._hits_before = 0

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
        self._kills_before, self._hits_before = self._count()
        limit = self._before + (memory_mb + _SLACK_MB) * _MB
        if abs(limit - self._limit) > _DRIFT_MB * _MB:
            self._limit_file.write_text(str(limit))
            self._limit = limit
        if processes != self._processes:
            self._pids_file.write_text(str(processes + 5))  # the zygotes and the run's init
            self._processes = processes
        if self._peak >= 0:
            os.pwrite(self._peak, b"0", 0)

    def end(self) -> tuple[float | None, bool]:
        """Peak memory of the run in MB (None: this kernel does not tell), and whether it hit the limit.

        Raises OSError if the run was killed for the memory that others use.
        """
        killed = _was_killed((self._kills_before, self._hits_before), self._count())
        if self._peak >= 0:
            peak = int(os.pread(self._peak, 32, 0))
        elif killed:
            peak = self._limit
        else:
            return None, killed
        return max(0, peak - self._before) / _MB, killed

    def _count(self) -> tuple[int, int]:
        return _count(self._events, self._hits)

    def remove(self) -> None:
        """Remove the cgroup; its processes must be dead already."""
        for descriptor in (self._usage, self._events, self._hits, self._peak, self.cpu_usage):
            if descriptor >= 0:
                os.close(descriptor)
        for directory in set(self._directories.values()):
            _remove(directory)


class Surroundings:
    """The cgroup that we and our runs are in, where it is ours alone but not ours to change: a container's. It tells of
    kills. Its limit, set from outside, must leave room for all that a run may use.

    Raises OSError where it cannot be read.
    """

    def __init__(self) -> None:
        own = _own()
        if "memory" in own:
            names, directory = ("memory.oom_control", "memory.failcnt"), own["memory"]
        elif "v2" in own:
            names, directory = ("memory.events", "memory.events"), own["v2"]
        else:
            raise FileNotFoundError("no cgroup in sight")
        self._events, self._hits = (_open(directory / name) for name in names)
        self._before = (0, 0)

    def begin(self) -> None:
        self._before = _count(self._events, self._hits)

    def end(self) -> bool:
        """Whether a process was killed for exceeding the limit. Raises OSError if it was for what others use."""
        return _was_killed(self._before, _count(self._events, self._hits))


def _count(events: int, hits: int) -> tuple[int, int]:
    """How many processes were killed for want of memory, and how often our own limit was hit."""
    killed = re.search(rb"^oom_kill (\d+)", os.pread(events, 4096, 0), re.MULTILINE)
    hit = re.search(rb"^(?:oom )?(\d+)", os.pread(hits, 4096, 0), re.MULTILINE)
    return int(killed[1]) if killed else 0, int(hit[1]) if hit else 0


def _was_killed(before: tuple[int, int], now: tuple[int, int]) -> bool:
    killed = now[0] > before[0]
    if killed and now[1] == before[1]:
        raise OSError("the machine, or all that share our memory limit, ran out of memory")
    return killed


def create(which: str) -> Cgroup:
    """A new cgroup for runs of this process; `which` tells its cgroups apart. Raises OSError, with the reason, where
    none can be made."""
    _take_over()
    name = f"{leftovers.own_name()}-{which}"
    reasons = []
    for version, bases in _bases():
        made: dict[str, Path] = {}
        try:
            for controller, base in bases.items():
                (base / name).mkdir(exist_ok=True)
                made[controller] = base / name
            return Cgroup(made, version)
        except OSError as error:
            reasons.append(f"v{version}: {error}")
            for directory in set(made.values()):
                _remove(directory)
    reason = "; ".join(reasons) or "no cgroup that we may divide has the memory and pids controllers"
    if os.geteuid() != 0 and os.path.isdir("/run/systemd/system"):
        reason += '; "systemd-run --user --scope COMMAND" gives one'
    raise OSError(reason)


def sweep() -> None:
    """Remove what workers that were killed have left behind."""
    for _, bases in _bases():
        for base in set(bases.values()):
            for directory in base.glob(f"{leftovers.PREFIX}*-*"):
                if leftovers.is_abandoned(directory.name):
                    _remove(directory)


def _bases() -> Iterator[tuple[int, dict[str, Path]]]:
    """(version, {controller: directory in which a cgroup may be made}), in order of preference."""
    own = _own()
    if "v2" in own:
        base = _dividing(own["v2"])
        if base is not None:
            yield 2, dict.fromkeys(("memory", "pids"), base)
    if {"memory", "pids", "cpuacct"} <= own.keys():
        yield 1, {name: own[name] for name in ("memory", "pids", "cpuacct", "cpu") if name in own}


def _own() -> dict[str, Path]:
    """The cgroups that this process is in: controller, or "v2" for the unified hierarchy -> directory."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, point = left.split()[3:5]
            for controller in ["v2"] if kind == "cgroup2" else options.split(","):
                mounts.setdefault(controller, (root, point))
    own: dict[str, Path] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(",") if controllers else ["v2"]:
            if controller in mounts:
                root, point = mounts[controller]
                own[controller] = Path(point, os.path.relpath(path, root))
    return own


def _dividing(own: Path) -> Path | None:
    """The nearest cgroup around `own` in which new ones get our controllers and may be made and joined."""
    for base in (own, *own.parents):
        try:
            enabled = (base / "cgroup.subtree_control").read_text().split()
        except OSError:
            return None
        if {"memory", "pids"} <= set(enabled):
            return base if _writable(base) else None
    return None


def _take_over() -> None:
    """Make the v2 cgroup that we are in a dividing one, if there is no other and it is ours to shape.

    It is ours if it is all that we see, as in a container, or if an ordinary user may write to it. A cgroup
    that divides may hold no processes, unless it is the root of all: those in it move to a leaf.
    """
    own = _own().get("v2")
    if own is None or _dividing(own) or not _writable(own):
        return
    if os.geteuid() == 0 and not os.path.ismount(own):
        return
    with contextlib.suppress(OSError):
        if not {"memory", "pids"} <= set((own / "cgroup.controllers").read_text().split()):
            return
        if _enable(own, "+memory +pids"):
            return
        leaf = own / _LEAF
        for _ in range(10):  # they may start new ones meanwhile
            pids = (own / "cgroup.procs").read_text().split()
            if "0" in pids:  # of a pid namespace that we do not see
                return
            leaf.mkdir(exist_ok=True)
            for pid in pids:
                with contextlib.suppress(OSError):
                    (leaf / "cgroup.procs").write_text(pid)
            if _enable(own, "+memory +pids"):
                _enable(own, "+cpu")
                return


def _enable(base: Path, controllers: str) -> bool:
    try:
        (base / "cgroup.subtree_control").write_text(controllers)
    except OSError:
        return False
    return True


def _writable(base: Path) -> bool:
    return all(os.access(base / name, os.W_OK) for name in (".", "cgroup.procs", "cgroup.subtree_control"))


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


def _open(path: Path, flags: int = os.O_RDONLY) -> int:
    return os.open(path, flags | os.O_CLOEXEC)


def _open_peak(path: Path) -> int:
    """Descriptor of the peak; -1 where there is none (v2 before Linux 5.19) or it cannot be reset (before 6.12).

    A peak that cannot be reset is one of all runs so far.
    """
    try:
        descriptor = _open(path, os.O_RDWR)
    except OSError:
        return -1
    try:
        os.pwrite(descriptor, b"0", 0)
    except OSError:
        os.close(descriptor)
        return -1
    return descriptor
