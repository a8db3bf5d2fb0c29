"""Measurement of the resources that a run's processes use, and SIGKILL to all of them without a pid namespace."""

import contextlib
import mmap
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from sandbox.jail.child import RunParams
from sandbox.kernel import linux

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_TICKS_SECONDS = 0.025  # maximum interval at which the kernel updates the counters of a running thread
_STAT_FIELDS = 22
_USED_TICKS, _RESIDENT_PAGES = slice(11, 15), 21  # indices of fields returned by _read_stat
_MAX_WATCHED_THREADS = 4  # a busy machine would delay a scan of more threads beyond the run's time limit
_NICE_THRESHOLD = 32  # threads above which a run in a cgroup gets a lower priority than the zygote
_NICE_INCREMENT = 10  # niceness increment of such a run, for a ninth of the zygote's scheduler weight
_SLACK_MB = 16  # allowance for memory shared with the zygote
_MAX_SCAN_SECONDS = 1.0  # wall time limit of a scan of a run's processes
_MAX_SCAN_CPU_SECONDS = 0.1  # CPU time limit of a scan; on a busy machine, most of its wall time is waiting
_REMEASURE_FACTOR = 10  # interval between measurements of shared memory, as a multiple of their CPU time


@dataclass(frozen=True, slots=True)
class CgroupCounterFds:
    """Descriptors of the counters of the zygote's cgroup: CPU time, events such as OOM kills, and number of tasks."""

    cpu_usage: int
    events: int
    tasks: int


class ProcessTree:
    """The processes of the run in progress.

    proc            descriptor of /proc
    owns_namespace  whether the run consists of all other processes of the zygote's pid namespace; otherwise, it
                    consists of all descendants of the zygote, a subreaper
    uid             uid that only the run's processes have; None if other processes also have it
    counters        counters of the cgroup of the zygote and the run; None without a cgroup

    Data that a program controls, such as process names, never enters memory that later runs inherit.
    """

    def __init__(self, proc: int, *, owns_namespace: bool, uid: int | None, counters: CgroupCounterFds | None) -> None:
        self._owns_namespace = self._has_init = owns_namespace
        self._uid = uid
        self._proc = proc
        self._counters = counters
        self._initial_cpu_seconds = 0.0
        self._initial_oom_kills = b""
        # Times ending in _time are in monotonic seconds.
        self._has_unknown_waits = False  # result of _has_unattributable_waits at the last check
        self._last_check_time = 0.0
        self._next_measurement_time = 0.0  # earliest next measurement of shared memory
        self._schedstat_fd = os.open("self/schedstat", os.O_RDONLY, dir_fd=proc)
        self._own_wait_seconds = 0.0  # CPU wait of the zygote at its last response to a notification
        self._runnable_seconds = 0.0  # duration for which the run had several processes, one of them runnable
        self._response_seconds = 0.0  # CPU waits of the zygote during the run's system calls, since the last check
        self._sum_response_seconds = 0.0  # total of these waits, except while the run was runnable
        self._page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page.madvise(mmap.MADV_DONTFORK)

    def begin_run(self) -> None:
        """Start counting CPU time and OOM kills."""
        self._initial_cpu_seconds, self._initial_oom_kills = self._read_cgroup_cpu_seconds(), self._read_oom_kills()
        self._has_unknown_waits, self._last_check_time, self._runnable_seconds = False, time.monotonic(), 0.0
        self._next_measurement_time = self._response_seconds = self._sum_response_seconds = 0.0
        self._own_wait_seconds = self._read_own_wait()

    def find_exceeded_limit(self, params: RunParams, deadline: float) -> str:
        """Return the limit that the run exceeds: "memory", "time", or "" if none.

        In a cgroup, a run exceeds its memory limit if the OOM killer has killed a process. Without a cgroup, this
        method scans the processes until the deadline (monotonic seconds), since a complete scan can take a minute.
        """
        if self._counters is not None:
            if int(os.pread(self._counters.tasks, 32, 0)) > _NICE_THRESHOLD:
                self._lower_priority()
            now = time.monotonic()
            if self._owns_namespace and self._is_runnable():
                self._runnable_seconds += now - self._last_check_time
            else:
                self._sum_response_seconds += self._response_seconds
            self._last_check_time, self._response_seconds = now, 0.0
            exceeds_memory = self._read_oom_kills() != self._initial_oom_kills
            used_seconds = self.measure_cpu_seconds()
        else:
            deadline = min(deadline, time.monotonic() + _MAX_SCAN_SECONDS)
            pids = self._list_pids()
            self._has_unknown_waits = self._has_unattributable_waits(pids)
            # Read parents before children: otherwise the time of a child that exits in between would count twice.
            stats = [stat for stat in map(self._read_stat, _scan_until(deadline, pids)) if stat]
            used_seconds = sum(int(ticks) for stat in stats for ticks in stat[_USED_TICKS]) / _TICKS_PER_SECOND
            resident_kb = sum(int(stat[_RESIDENT_PAGES]) for stat in stats) * mmap.PAGESIZE >> 10
            exceeds_memory = resident_kb > params.memory_mb << 10 and self._exceeds_memory(
                params.memory_mb, pids, deadline
            )
        if exceeds_memory:
            return "memory"
        return "time" if params.exceeds_cpu_limit(used_seconds) else ""

    def _is_runnable(self) -> bool:
        """Return whether the run has several processes, one of them runnable."""
        pids = self._list_pids()
        # One of them is the run's init.
        return len(pids) > 2 and any(self._read_stat(pid)[:1] == [b"R"] for pid in pids)

    def record_syscall_response(self) -> None:
        """Record the zygote's CPU wait before its response to a system call of the run."""
        waited_before, self._own_wait_seconds = self._own_wait_seconds, self._read_own_wait()
        self._response_seconds += self._own_wait_seconds - waited_before

    def _read_own_wait(self) -> float:
        return int(os.pread(self._schedstat_fd, 64, 0).split()[1]) / 1e9

    def _lower_priority(self) -> None:
        """Lower the priority of the run's threads below the zygote's, within the cgroup's share of the machine.

        Has no effect if programs have their own uid and the zygote lacks CAP_SYS_NICE.
        """
        nice = os.getpriority(os.PRIO_PROCESS, 0) + _NICE_INCREMENT
        if self._uid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                linux.set_nice(os.PRIO_USER, self._uid, nice)
            return
        for pid in self._list_pids():
            for thread in self._list(f"{pid}/task"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    linux.set_nice(os.PRIO_PROCESS, int(thread), nice)

    def _read_oom_kills(self) -> bytes:
        if self._counters is None:
            return b""
        return os.pread(self._counters.events, 4096, 0).partition(b"oom_kill ")[2]

    def measure_cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes of the run, including unreaped ones; 0 without a cgroup."""
        return max(0.0, self._read_cgroup_cpu_seconds() - self._initial_cpu_seconds)

    def _read_cgroup_cpu_seconds(self) -> float:
        if self._counters is None:
            return 0.0
        fields = os.pread(self._counters.cpu_usage, 64, 0).split()
        seconds = int(fields[1]) / 1e6 if fields[0] == b"usage_usec" else int(fields[0]) / 1e9
        return seconds - time.process_time()

    def measure_cpu_and_wait_seconds(self) -> tuple[float, float]:
        """Return the run's CPU seconds, and the seconds by which other load delayed it.

        The delay is the longest CPU wait of a thread, minus possible waits for threads of the same run. The kernel
        discards the CPU waits of exited processes, so this method estimates them as the time with a runnable process,
        minus the CPU time. In a cgroup, the delay includes late responses of the zygote to the run's system calls.
        """
        if self._has_unknown_waits:
            return 0.0, 0.0
        pids = self._list_pids()
        threads = [(on_cpu, waited) for _, on_cpu, waited, _ in self._read_threads(pids)]
        used = max(self.measure_cpu_seconds(), sum(on_cpu for on_cpu, _ in threads) / 1e9)
        if self._has_unattributable_waits(pids):
            return used, 0.0
        external_wait = max(((waited + on_cpu) / 1e9 - used for on_cpu, waited in threads), default=0.0)
        return used, max(0.0, external_wait, self._runnable_seconds - used) + self._sum_response_seconds

    def is_waiting_for_cpu(self) -> bool:
        """Return whether a thread has been waiting for a processor for 25 ms.

        measure_cpu_and_wait_seconds excludes this wait, since the kernel counts a wait only when it ends.
        """
        if self._has_unknown_waits:
            return False
        pids = self._list_pids()
        if self._has_unattributable_waits(pids):
            return False
        used, started = self.measure_cpu_seconds(), time.monotonic()
        before = set(self._read_threads(pids))
        time.sleep(_TICKS_SECONDS)
        if self.measure_cpu_seconds() - used > time.monotonic() - started:
            return False  # the run's own threads compete for processors
        return any(thread in before and self._read_stat(thread[0])[:1] == [b"R"] for thread in self._read_threads(pids))

    def _has_unattributable_waits(self, pids: list[int]) -> bool:
        """Return whether the run itself may have caused its CPU waits; always False in a cgroup.

        Threads may have waited for exited children, whose CPU time is unknown. A run with many threads also counts,
        since on a busy machine a scan of them would take longer than the run's limit.
        """
        if self._counters is not None:
            return False
        return len(pids) > 1 + self._has_init or sum(map(self._count_threads, pids)) > _MAX_WATCHED_THREADS

    def _count_threads(self, pid: int) -> int:
        try:
            return os.stat(f"{pid}/task", dir_fd=self._proc).st_nlink - 2
        except OSError:
            return 0

    def _read_threads(self, pids: list[int]) -> Iterator[tuple[int, int, int, int]]:
        """Yield the schedstat of each thread: (thread id, CPU nanoseconds, wait nanoseconds, number of timeslices)."""
        for pid in pids:
            for thread in self._list(f"{pid}/task"):
                fields = self._read(f"{pid}/task/{thread}/schedstat").split()
                if len(fields) == 3:
                    yield int(thread), int(fields[0]), int(fields[1]), int(fields[2])

    def _exceeds_memory(self, memory_mb: int, pids: list[int], deadline: float) -> bool:
        """Return whether the processes use more memory than memory_mb: their private memory and share of shared memory.

        Measures only at intervals, since a measurement is slow, and returns False in between.
        """
        if time.monotonic() < self._next_measurement_time:
            return False
        cpu_seconds_before = time.thread_time()
        proportional_kb = 0
        for pid in _scan_until(deadline, pids):
            share = self._read(f"{pid}/smaps_rollup").partition(b"\nPss:")[2].split()
            # The file is unreadable, for example, after the exit of the process.
            proportional_kb += int(share[0]) if share else self._read_resident_kb(pid)
            if proportional_kb > (memory_mb + _SLACK_MB) << 10:
                return True
        # A multiple of the wall time would be too long on a busy machine.
        self._next_measurement_time = time.monotonic() + _REMEASURE_FACTOR * (time.thread_time() - cpu_seconds_before)
        return False

    def _read_resident_kb(self, pid: int) -> int:
        fields = self._read(f"{pid}/statm").split()
        return int(fields[1]) * mmap.PAGESIZE >> 10 if len(fields) > 1 else 0

    def count_threads(self) -> int:
        """Return the number of threads of all processes of the run."""
        return sum(map(self._count_threads, self._list_pids())) - self._has_init

    def contains(self, pid: int) -> bool:
        return pid in self._list_pids()

    def kill(self) -> float:
        """Kill and reap all processes of the run without a pid namespace, and return their CPU seconds.

        Orphans become children of the zygote, so the loop ends when the zygote has no child. The run cannot fork
        during the loop, since its seccomp notifications get no response.
        """
        cpu_seconds, pause_seconds = 0.0, 0.001
        pids: list[int] = []
        while True:
            try:
                reaped_pid, _, usage = os.wait4(-1, os.WNOHANG | linux.WAIT_ALL)
            except ChildProcessError:
                return cpu_seconds
            if reaped_pid:
                cpu_seconds += usage.ru_utime + usage.ru_stime
                continue
            pids = self._list_children(os.getpid()) if pids else self._list_pids()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    linux.kill(pid, signal.SIGKILL)
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _TICKS_SECONDS)

    def _list_pids(self) -> list[int]:
        if self._owns_namespace:
            return [int(name) for name in os.listdir(self._proc) if name.isdigit() and int(name) != os.getpid()]
        descendants: list[int] = []
        pending = [os.getpid()]
        while pending:
            children = self._list_children(pending.pop())
            descendants += children
            pending += children
        return descendants

    def _list_children(self, pid: int) -> list[int]:
        threads = [str(pid)] if self._count_threads(pid) == 1 else self._list(f"{pid}/task")
        lists = (self._read(f"{pid}/task/{thread}/children") for thread in threads)
        return [int(child) for children in lists for child in children.split()]

    def _read_stat(self, pid: int) -> list[bytes]:
        """Return the first _STAT_FIELDS fields of /proc/PID/stat, beginning with the state; empty if it has exited.

        Reads the file into a page that forks do not inherit: a program controls some fields, such as its name and
        blocked signals, and could pass data to later runs.
        """
        try:
            with self._open(f"{pid}/stat") as descriptor:
                length = os.readv(descriptor, [self._page])
        except OSError:
            return []
        start = end = self._page.rfind(b")", 0, length) + 1
        for _ in range(_STAT_FIELDS):
            end = self._page.find(b" ", end + 1, length)
        return self._page[start:end].split()

    def _read(self, path: str) -> bytes:
        """Return the content of a file below /proc; empty if it is missing, for example, after the process's exit."""
        with contextlib.suppress(OSError), self._open(path) as descriptor:
            return os.read(descriptor, 1 << 16)
        return b""

    def _list(self, path: str) -> list[str]:
        with contextlib.suppress(OSError), self._open(path) as descriptor:
            return os.listdir(descriptor)
        return []

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[int]:
        descriptor = os.open(path, os.O_RDONLY, dir_fd=self._proc)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _scan_until(deadline: float, pids: Iterable[int]) -> Iterator[int]:
    """Yield at least one pid, and further ones until the deadline (monotonic seconds) or the scan's CPU time limit."""
    cpu_deadline = time.thread_time() + _MAX_SCAN_CPU_SECONDS
    for pid in pids:
        yield pid
        if time.monotonic() >= deadline or time.thread_time() >= cpu_deadline:
            return


def kill_children(except_pids: Collection[int]) -> None:
    """Kill and reap all children of this subreaper except these."""
    tree = f"/proc/self/task/{os.getpid()}/children"
    while True:
        with open(tree) as file:
            others = {int(pid) for pid in file.read().split()}.difference(except_pids)
        if not others:
            return
        for pid in others:
            os.kill(pid, signal.SIGKILL)  # no other process can have this pid until waitpid
        for pid in others:
            os.waitpid(pid, linux.WAIT_ALL)
