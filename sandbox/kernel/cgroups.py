"""Limits on memory, processes and CPU time of a run, by a writable cgroup v1 or v2.

Each runner has one cgroup for its zygotes and all their runs. Its memory limit is the baseline charge, measured while
no run is active, plus the limit of the run. A run begins only when the charge has returned to the baseline, so memory
of one run never counts for the next. The baseline excludes the zygotes' page cache, since the kernel reclaims it when a
run needs the memory.

The peak memory of a run is the highest charge during the run minus the charge just before it: anonymous pages, /tmp,
pipes, page tables and kernel objects of all its processes. It excludes unmodified pages of the interpreter, which
belong to the zygote. Only v1 and, since Linux 6.12, v2 record a peak for each run.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sandbox import machine
from sandbox.kernel import delegation, stale_resources
from sandbox.kernel.delegation import CgroupSubtree

_SLACK_MB = 16  # added to a run's limit, for drift and for the kernel's precharges
_DRIFT_MB = 8  # tolerated excess of the charge over the baseline
_RELEASE_SLACK_MB = 1  # maximum of precharges and of unfreed memory when the next run begins
_SPARE_PROCESSES = 2  # the run's init, and one exited process that the kernel still counts
_PERIOD_US = 100_000
_MAX_PROCESSORS = 2  # CPU quota of a cgroup; a single-threaded program never reaches it
_WEIGHTS = {1: (1024, 1 << 18), 2: (100, 10_000)}  # by version: the default and the maximum CPU weight
_QUICK_RELEASE_SECONDS = 0.005  # time in which the kernel usually frees most memory of a run
_RELEASE_TIMEOUT_SECONDS = 0.3
_MB = 1 << 20


class CgroupJoinError(Exception):
    """Failure to move a process into a new cgroup."""


class CgroupUnusable(Exception):
    """The cgroup was removed, or its charge includes memory of earlier runs. Remedy: new zygotes in a new cgroup."""


@dataclass(frozen=True, slots=True)
class CgroupUsage:
    """A run's memory usage.

    peak_mb        peak; None if the kernel does not report it
    oom_killed     whether the OOM killer killed a process
    limit_reached  whether the charge reached the limit, with or without a kill
    """

    peak_mb: float | None
    oom_killed: bool
    limit_reached: bool


class Cgroup:
    """The cgroup of a worker's zygotes and runs. All methods raise OSError if the kernel rejects an operation.

    The warden creates it and adds processes. The judge sets the limits through open files.

    files        name -> descriptor of an open file of the cgroup
    directories  the cgroup's directories; empty in the judge
    """

    def __init__(self, version: int, files: dict[str, int], directories: Iterable[Path] = ()) -> None:
        self.version = version
        self.files = files
        self._directories = set(directories)
        self._peak = files.get("peak", -1)
        self.bounds_cpu = self._set_cpu_quota()
        self._has_raised_weight = False
        self._limit = self._process_limit = 0
        # Bytes charged while no run is active: for all but the page cache, and for the page cache.
        self._baseline = self._page_cache = 0
        self._earlier_charge = 0  # bytes still charged for earlier runs when the latest zygote started
        self._baseline_processes = 0
        self._is_page_cache_current = True
        self._initial_charge = 0
        self._initial_counts = (b"", b"")

    @property
    def counter_fds(self) -> list[int]:
        """The descriptors in process_tree.CgroupCounterFds, which zygotes inherit."""
        return [self.files[name] for name in ("cpu_usage", "events", "processes_now")]

    def add_process(self, pid: int) -> None:
        """Add a process to the cgroup. Raises CgroupJoinError."""
        try:
            for directory in self._directories:
                (directory / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise CgroupJoinError(str(error)) from error

    def prepare_for_zygote(self) -> None:
        """Wait until the charge is back at the baseline, then lift the limit. Raises CgroupUnusable."""
        if self._baseline:
            self._earlier_charge = max(0, self.wait_until_idle() - self._read_page_cache() - self._baseline)
        self._write("limit", "-1" if self.version == 1 else "max")
        self._limit = 0

    def measure_baseline(self) -> None:
        """Measure the baseline charge. Call it when a zygote is ready and no run is active."""
        self._page_cache = self._read_page_cache()
        self._baseline = self._read_charge() - self._page_cache - self._earlier_charge
        self._baseline_processes = int(os.pread(self.files["processes_now"], 32, 0))

    def wait_until_idle(self) -> int:
        """Wait until the charge is back at the baseline, and return the charged bytes. Raises CgroupUnusable."""
        charged = self._read_charge()
        if self._is_page_cache_current and abs(charged - self._baseline - self._page_cache) <= _DRIFT_MB * _MB:
            return charged
        return self._wait_for_release()

    def begin_run(self, memory_mb: int, processes: int) -> None:
        """Set the limits of the next run, and record the initial counters.

        Raises CgroupUnusable if memory of an earlier run would count for this one.
        """
        charged = self.wait_until_idle()
        limit = self._baseline + (memory_mb + _SLACK_MB) * _MB
        if limit != self._limit:
            # The charge includes the page cache. A lower limit would make v2 kill a process before it reclaims the
            # cache.
            if charged > limit:
                self._reclaim(limit)
                charged, self._page_cache = self._read_charge(), self._read_page_cache()
                if charged > limit:
                    excess_mb = (charged - limit) / _MB
                    raise CgroupUnusable(f"the charge stays {excess_mb:.0f} MB above the limit of the next run")
            self._write("limit", str(limit))
            self._limit = limit
        # An excess over the baseline is unfreed memory of the last run, and the kernel's precharges (256 KB per
        # processor), which the run may use.
        self._initial_charge = min(charged, max(self._baseline + self._page_cache, charged - _RELEASE_SLACK_MB * _MB))
        self._initial_counts = self._read_counts()
        limit = self._baseline_processes + processes + _SPARE_PROCESSES
        if limit != self._process_limit:
            self._write("processes", str(limit))
            self._process_limit = limit
        if self._peak >= 0:
            os.pwrite(self._peak, b"0", 0)

    def end_run(self, *, was_parallel: bool) -> CgroupUsage:
        """Return the run's usage. was_parallel: whether it kept more than one processor busy.

        Raises OSError if the OOM killer killed the run for a lack of memory outside this cgroup.
        """
        now = self._read_counts()
        killed = has_reached_limit = False
        if now != self._initial_counts:  # skips the parsing for most runs
            killed = _has_oom_killed(_parse_counts(*self._initial_counts), _parse_counts(*now))
            has_reached_limit = _parse_counts(*now)[2] > _parse_counts(*self._initial_counts)[2]
        if self._has_raised_weight:
            self._set_weight(_WEIGHTS[self.version][0])
            self._has_raised_weight = False
        # A new period: in the current one, the kernel would throttle the next run for this run's CPU time.
        if was_parallel:
            self.bounds_cpu = self._set_cpu_quota()
        peak = self._limit if killed else -1
        if self._peak >= 0:
            peak = int(os.pread(self._peak, 32, 0))
        if has_reached_limit:  # the run also used memory reclaimed from the page cache
            self._is_page_cache_current = False
            self._initial_charge = min(self._initial_charge, self._baseline + self._read_page_cache())
        return CgroupUsage(max(0, peak - self._initial_charge) / _MB if peak >= 0 else None, killed, has_reached_limit)

    def raise_weight(self) -> None:
        """Raise the CPU weight of the run in progress until it ends, since a busy machine may have starved it."""
        self._set_weight(_WEIGHTS[self.version][1])
        self._has_raised_weight = True

    def _set_weight(self, weight: int) -> None:
        if "weight" in self.files:
            with contextlib.suppress(OSError):  # the cgroup may have lost the cpu controller
                self._write("weight", str(weight))

    def _wait_for_release(self) -> int:
        """Wait for the kernel to free memory of earlier runs, and return the charge. Raises CgroupUnusable."""
        start_time = time.monotonic()
        pause_seconds, reclaimed = 0.0002, 0.0
        while True:
            charged, self._page_cache = self._read_charge(), self._read_page_cache()
            above = charged - self._page_cache - self._baseline
            if above <= _DRIFT_MB * _MB:
                self._baseline = min(self._baseline, charged - self._page_cache)
                self._is_page_cache_current = True
                return charged
            waited = time.monotonic() - start_time
            if waited > _RELEASE_TIMEOUT_SECONDS:
                raise CgroupUnusable(f"the charge still includes {above / _MB:.0f} MB of earlier runs")
            if waited > _QUICK_RELEASE_SECONDS + 4 * reclaimed:
                self._reclaim(charged - above)
                reclaimed = time.monotonic() - start_time
            time.sleep(pause_seconds)
            pause_seconds *= 1.5

    def _reclaim(self, target: int) -> None:
        """Make the kernel reclaim memory above `target`, including its precharges."""
        self._limit = 0
        with contextlib.suppress(OSError):  # v1 fails if it cannot reclaim all of it
            self._write("reclaim", str(target))
        if self.version == 2:
            self._write("reclaim", "max")

    def _set_cpu_quota(self) -> bool:
        """Set the CPU quota, which starts a new period; return whether the kernel accepted it."""
        quota = str(_MAX_PROCESSORS * _PERIOD_US)
        if "quota" not in self.files:
            return False
        try:
            self._write("quota", quota if self.version == 1 else f"{quota} {_PERIOD_US}")
        except OSError:  # in v2, the manager may have disabled the cpu controller
            return False
        return True

    def _write(self, name: str, value: str) -> None:
        os.pwrite(self.files[name], value.encode(), 0)

    def _read_charge(self) -> int:
        try:
            return int(os.pread(self.files["usage"], 32, 0))
        except OSError as error:  # ENODEV
            raise CgroupUnusable(f"the cgroup has been removed: {error}") from error

    def _read_page_cache(self) -> int:
        """Return the bytes of page cache, without tmpfs and memfds."""
        text = os.pread(self.files["stat"], 1 << 14, 0)
        cached = re.search(rb"^(?:cache|file) (\d+)", text, re.MULTILINE)
        shared = re.search(rb"^shmem (\d+)", text, re.MULTILINE)
        return int(cached[1]) - int(shared[1]) if cached and shared else 0

    def _read_counts(self) -> tuple[bytes, bytes]:
        return os.pread(self.files["events"], 4096, 0), os.pread(self.files["hits"], 4096, 0)

    def close(self) -> None:
        for descriptor in self.files.values():
            os.close(descriptor)

    def remove(self) -> None:
        """Kill all processes in the cgroup and remove it."""
        with contextlib.suppress(OSError):
            self._write("processes", "0")  # makes all forks fail
        self.close()
        for directory in self._directories:
            delegation.remove_cgroup(directory)


class EnclosingCgroup:
    """The read-only cgroup of the container around the worker and its runs, which reports OOM kills. Its limit must
    exceed the memory of any run. Raises OSError if no cgroup is readable.
    """

    def __init__(self) -> None:
        own = machine.find_cgroups(*machine.read_memberships_and_mounts())
        if "memory" in own:
            names, directory = ("memory.oom_control", "memory.failcnt"), own["memory"][1]
        elif "v2" in own:
            names, directory = ("memory.events", "memory.events"), own["v2"][1]
        else:
            raise FileNotFoundError("found no readable cgroup of this process")
        self._events, self._hits = (_open(directory / name) for name in names)
        self._initial_counts = (0, 0, 0)

    def begin_run(self) -> None:
        self._initial_counts = _read_counts(self._events, self._hits)

    def end_run(self) -> bool:
        """Return whether the OOM killer killed a process because the cgroup reached its limit.

        Raises OSError if it did so for a lack of memory outside this cgroup.
        """
        return _has_oom_killed(self._initial_counts, _read_counts(self._events, self._hits))


def _read_counts(events_fd: int, hits_fd: int) -> tuple[int, int, int]:
    return _parse_counts(os.pread(events_fd, 4096, 0), os.pread(hits_fd, 4096, 0))


def _parse_counts(events: bytes, hits: bytes) -> tuple[int, int, int]:
    """Return the numbers of OOM kills, failed charges, and limit hits of this cgroup; v1 merges the last two."""
    killed = re.search(rb"^oom_kill (\d+)", events, re.MULTILINE)
    exceeded = re.search(rb"^(?:oom )?(\d+)", hits, re.MULTILINE)
    reached = re.search(rb"^(?:max )?(\d+)", hits, re.MULTILINE)
    first, second, third = (int(match[1]) if match else 0 for match in (killed, exceeded, reached))
    return first, second, third


def _has_oom_killed(before: tuple[int, int, int], now: tuple[int, int, int]) -> bool:
    killed = now[0] > before[0]
    if killed and now[1] == before[1]:
        raise OSError("the machine, or the enclosing cgroup, ran out of memory")
    return killed


def create_cgroup(subtree: CgroupSubtree, name: str) -> Cgroup:
    """Create a cgroup for runs of this process; `name` is unique among its cgroups. Raises OSError."""
    directories = subtree.make(f"{stale_resources.make_owner_tag()}-{name}")
    try:
        return Cgroup(subtree.version, _open_files(directories, v1=subtree.version == 1), directories.values())
    except OSError:
        for directory in set(directories.values()):
            delegation.remove_cgroup(directory)
        raise


def _open_files(directories: dict[str, Path], *, v1: bool) -> dict[str, int]:
    memory, pids = directories["memory"], directories["pids"]
    cpu, accounts = directories.get("cpu", memory), directories.get("cpuacct", memory)
    with contextlib.suppress(OSError):
        (memory / ("memory.swappiness" if v1 else "memory.swap.max")).write_text("0")
    files = {
        "limit": _open(memory / ("memory.limit_in_bytes" if v1 else "memory.max"), os.O_WRONLY),
        # Writes make the kernel reclaim memory above the value, without OOM kills, which a write to v2's memory.max
        # can cause.
        "reclaim": _open(memory / ("memory.limit_in_bytes" if v1 else "memory.high"), os.O_WRONLY),
        "usage": _open(memory / ("memory.usage_in_bytes" if v1 else "memory.current")),
        "stat": _open(memory / "memory.stat"),
        "events": _open(memory / ("memory.oom_control" if v1 else "memory.events")),
        "hits": _open(memory / ("memory.failcnt" if v1 else "memory.events")),
        "processes": _open(pids / "pids.max", os.O_WRONLY),
        "processes_now": _open(pids / "pids.current"),
        "cpu_usage": _open(accounts / ("cpuacct.usage" if v1 else "cpu.stat")),
    }
    peak = _open_peak(memory / ("memory.max_usage_in_bytes" if v1 else "memory.peak"))
    if peak >= 0:
        files["peak"] = peak
    with contextlib.suppress(OSError):  # this controller may be missing
        files["quota"] = _open(cpu / ("cpu.cfs_quota_us" if v1 else "cpu.max"), os.O_WRONLY)
    with contextlib.suppress(OSError):
        files["weight"] = _open(cpu / ("cpu.shares" if v1 else "cpu.weight"), os.O_WRONLY)
    return files


def _open(path: Path, flags: int = os.O_RDONLY) -> int:
    return os.open(path, flags | os.O_CLOEXEC)


def _open_peak(path: Path) -> int:
    """Return a descriptor of the peak; -1 if the kernel has none (v2 before Linux 5.19) or cannot reset it for each run
    (before 6.12).
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
