"""The processes of a run: their resource usage, and killing them all without a pid namespace."""

import contextlib
import mmap
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from sandbox.jail import linux
from sandbox.jail.child import RunParams

_TICKS = os.sysconf("SC_CLK_TCK")  # in a second
_TICKS_SECONDS = 0.025  # the counters of a running thread change within this time
_STAT_FIELDS = 22
_USED_TICKS, _RESIDENT_PAGES = slice(11, 15), 21  # indices of these fields
_MAX_WATCHED_THREADS = 4  # threads whose wait times can be read on a busy machine
_NICE_THRESHOLD = 32  # processes and threads above which a run in a cgroup gets a lower priority than the zygote
_NICE_INCREMENT = 10  # added to its niceness: a ninth of the zygote's weight
_SLACK_MB = 16  # allowance for what the processes share with the zygote
_MAX_SCAN_SECONDS = 1.0  # time limit of a scan of a run's processes
_MAX_SCAN_CPU_SECONDS = 0.1  # its CPU time; on a busy machine, most of the wall time is waiting
# Interval between measurements of shared memory, as a multiple of a measurement's CPU time.
_REMEASURE_FACTOR = 10


@dataclass(frozen=True, slots=True)
class CgroupCounterFds:
    """Descriptors of the counters of the cgroup that the zygote and its run are in: CPU time, events, among them
    processes killed for lack of memory, and the number of processes and threads."""

    cpu_usage: int
    events: int
    tasks: int


class ProcessTree:
    """The processes of the run in progress.

    proc        descriptor of /proc
    owns_namespace  whether the run is all other processes of the zygote's pid namespace; if not, it is all descendants
                    of the zygote, a subreaper
    uid         uid of exactly the visible processes of the run; None if there is no such uid
    counters    of the cgroup of the zygote and the run; None without one

    No program-controlled data, such as process names, is kept in memory that later runs inherit.
    """

    def __init__(self, proc: int, *, owns_namespace: bool, uid: int | None, counters: CgroupCounterFds | None) -> None:
        self._owns_namespace = self._has_init = owns_namespace  # the init of a pid namespace only sleeps
        self._uid = uid
        self._proc = proc
        self._counters = counters
        self._before = 0.0
        self._kills_before = b""
        self._waits_unknown = False  # result of the last check
        self._last_check = 0.0  # its monotonic time
        self._measured_again = 0.0  # earliest next measurement of shared memory, in monotonic seconds
        self._own_waits = os.open("self/schedstat", os.O_RDONLY, dir_fd=proc)
        self._own_wait_seconds = 0.0  # at the last response to a notification
        self._runnable_seconds = 0.0  # time with several processes, one of them runnable
        self._response_seconds = 0.0  # since the last check, CPU waits of the zygote during system calls of the run
        self._sum_response_seconds = 0.0  # their sum, except while the run was runnable
        self._page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page.madvise(mmap.MADV_DONTFORK)

    def begin(self) -> None:
        """Start counting CPU time and OOM kills."""
        self._before, self._kills_before = self._counted(), self._kills()
        self._waits_unknown, self._last_check, self._runnable_seconds = False, time.monotonic(), 0.0
        self._measured_again = self._response_seconds = self._sum_response_seconds = 0.0
        self._own_wait_seconds = self._own_wait()

    def exceeded_limit(self, job: RunParams, deadline: float) -> str:
        """Return the limit that the run exceeds: memory, time, or "" if none.

        A run in a cgroup exceeds its memory once the OOM killer has killed one of its processes. Without a cgroup, the
        scan stops at the deadline (monotonic seconds), since a hundred busy processes can take a minute.
        """
        if self._counters is not None:
            if int(os.pread(self._counters.tasks, 32, 0)) > _NICE_THRESHOLD:
                self._give_way()
            now = time.monotonic()
            if self._owns_namespace and self._is_runnable():
                self._runnable_seconds += now - self._last_check
            else:
                self._sum_response_seconds += self._response_seconds
            self._last_check, self._response_seconds = now, 0.0
            holds_too_much = self._kills() != self._kills_before
            used_seconds = self.cpu_seconds()
        else:
            deadline = min(deadline, time.monotonic() + _MAX_SCAN_SECONDS)
            pids = self._pids()
            self._waits_unknown = self._are_waits_unknown(pids)
            # Parents before their children: one that ends meanwhile is not counted twice.
            stats = [stat for stat in map(self._stat, _until(deadline, pids)) if stat]
            used_seconds = sum(int(ticks) for stat in stats for ticks in stat[_USED_TICKS]) / _TICKS
            resident_kb = sum(int(stat[_RESIDENT_PAGES]) for stat in stats) * mmap.PAGESIZE >> 10
            holds_too_much = resident_kb > job.memory_mb << 10 and self._holds_more_than(job.memory_mb, pids, deadline)
        if holds_too_much:
            return "memory"
        return "time" if job.exceeds_cpu_limit(used_seconds) else ""

    def _is_runnable(self) -> bool:
        """Return whether the run has several processes, one of them runnable."""
        pids = self._pids()
        return len(pids) > 2 and any(self._stat(pid)[:1] == [b"R"] for pid in pids)  # the first is the run's init

    def record_syscall_response(self) -> None:
        """Record how long the zygote waited for a processor while the run waited for its response to a system call."""
        waited_before, self._own_wait_seconds = self._own_wait_seconds, self._own_wait()
        self._response_seconds += self._own_wait_seconds - waited_before

    def _own_wait(self) -> float:
        """Return the seconds for which this process has waited for a processor since its start."""
        return int(os.pread(self._own_waits, 64, 0).split()[1]) / 1e9

    def _give_way(self) -> None:
        """Lower the priority of the run's many threads, so that the zygote need not wait behind all of them.

        The cgroup's share of the machine stays the same. Fails without CAP_SYS_NICE if programs have their own uid.
        """
        nice = os.getpriority(os.PRIO_PROCESS, 0) + _NICE_INCREMENT
        if self._uid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                linux.set_nice(os.PRIO_USER, self._uid, nice)
            return
        for pid in self._pids():
            for thread in self._list(f"{pid}/task"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    linux.set_nice(os.PRIO_PROCESS, int(thread), nice)

    def _kills(self) -> bytes:
        if self._counters is None:
            return b""
        return os.pread(self._counters.events, 4096, 0).partition(b"oom_kill ")[2]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes of the run, including unreaped ones; 0 without a cgroup."""
        return max(0.0, self._counted() - self._before)

    def _counted(self) -> float:
        if self._counters is None:
            return 0.0
        words = os.pread(self._counters.cpu_usage, 64, 0).split()
        seconds = int(words[1]) / 1e6 if words[0] == b"usage_usec" else int(words[0]) / 1e9
        return seconds - time.process_time()

    def cpu_and_wait_seconds(self) -> tuple[float, float]:
        """Return the CPU seconds used so far, and the seconds for which other load kept the run from a processor. The
        latter is the longest wait of a thread, minus the time that it may have waited for threads of the same run. For
        short-lived processes, whose waits are lost, it is an estimate: the time with a runnable process, minus the CPU
        time. In a cgroup, it includes the zygote's delayed responses to the run's system calls.
        """
        if self._waits_unknown:
            return 0.0, 0.0
        pids = self._pids()
        threads = [(on_cpu, waited) for _, on_cpu, waited, _ in self._threads(pids)]
        used = max(self.cpu_seconds(), sum(on_cpu for on_cpu, _ in threads) / 1e9)
        if self._are_waits_unknown(pids):
            return used, 0.0
        kept = max(((waited + on_cpu) / 1e9 - used for on_cpu, waited in threads), default=0.0)
        return used, max(0.0, kept, self._runnable_seconds - used) + self._sum_response_seconds

    def is_waiting_for_cpu(self) -> bool:
        """Return whether a thread has been waiting for a processor for some milliseconds. The kernel counts a wait when
        it ends, so `cpu_and_wait_seconds` lacks this one."""
        if self._waits_unknown:
            return False
        pids = self._pids()
        if self._are_waits_unknown(pids):
            return False
        used, started = self.cpu_seconds(), time.monotonic()
        before = set(self._threads(pids))
        time.sleep(_TICKS_SECONDS)
        if self.cpu_seconds() - used > time.monotonic() - started:
            return False  # its threads wait for one another
        return any(thread in before and self._stat(thread[0])[:1] == [b"R"] for thread in self._threads(pids))

    def _are_waits_unknown(self, pids: list[int]) -> bool:
        """Return whether the run's waits for a processor cannot be attributed to other load. Without a cgroup, the CPU
        time of ended children is unknown, and threads may have waited for them; and on a busy machine, scanning many
        threads takes longer than the run's limit.
        """
        if self._counters is not None:
            return False
        return len(pids) > 1 + self._has_init or sum(map(self._n_threads, pids)) > _MAX_WATCHED_THREADS

    def _n_threads(self, pid: int) -> int:
        try:
            return os.stat(f"{pid}/task", dir_fd=self._proc).st_nlink - 2
        except OSError:
            return 0

    def _threads(self, pids: list[int]) -> Iterator[tuple[int, int, int, int]]:
        """Yield (thread id, nanoseconds on a processor, nanoseconds waiting for one, number of times it got one)."""
        for pid in pids:
            for thread in self._list(f"{pid}/task"):
                fields = self._read(f"{pid}/task/{thread}/schedstat").split()
                if len(fields) == 3:
                    yield int(thread), int(fields[0]), int(fields[1]), int(fields[2])

    def _holds_more_than(self, memory_mb: int, pids: list[int], deadline: float) -> bool:
        """Return whether the processes hold more memory; shared memory counts once, the zygote's pages do not. False
        between two measurements, which are slow."""
        if time.monotonic() < self._measured_again:
            return False
        cpu_seconds_before = time.thread_time()
        proportional_kb = 0
        for pid in _until(deadline, pids):
            share = self._read(f"{pid}/smaps_rollup").partition(b"\nPss:")[2].split()
            proportional_kb += int(share[0]) if share else self._resident_kb(pid)  # unreadable, or gone
            if proportional_kb > (memory_mb + _SLACK_MB) << 10:
                return True
        # CPU time: on a busy machine, a bound in wall time would come too late.
        self._measured_again = time.monotonic() + _REMEASURE_FACTOR * (time.thread_time() - cpu_seconds_before)
        return False

    def _resident_kb(self, pid: int) -> int:
        fields = self._read(f"{pid}/statm").split()
        return int(fields[1]) * mmap.PAGESIZE >> 10 if len(fields) > 1 else 0

    def count_threads(self) -> int:
        """Return the number of threads of all processes of the run."""
        return sum(map(self._n_threads, self._pids())) - self._has_init

    def contains(self, pid: int) -> bool:
        """Return whether a process belongs to the run."""
        return pid in self._pids()

    def kill(self) -> float:
        """Kill and reap all processes of the run, and return their CPU seconds.

        Orphans become children of the zygote, so the run has ended when the zygote has no child. The run cannot fork
        faster than it is killed, since its notifications (seccomp_notify.py) get no response meanwhile.
        """
        cpu_seconds, pause_seconds = 0.0, 0.001
        pids: list[int] = []
        while True:
            try:
                ended, _, usage = os.wait4(-1, os.WNOHANG | linux.WAIT_ALL)
            except ChildProcessError:
                return cpu_seconds
            if ended:
                cpu_seconds += usage.ru_utime + usage.ru_stime
                continue
            pids = self._children(os.getpid()) if pids else self._pids()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    linux.kill(pid, signal.SIGKILL)
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _TICKS_SECONDS)

    def _pids(self) -> list[int]:
        if self._owns_namespace:
            return [int(name) for name in os.listdir(self._proc) if name.isdigit() and int(name) != os.getpid()]
        descendants: list[int] = []
        pending = [os.getpid()]
        while pending:
            below = self._children(pending.pop())
            descendants += below
            pending += below
        return descendants

    def _children(self, pid: int) -> list[int]:
        threads = [str(pid)] if self._n_threads(pid) == 1 else self._list(f"{pid}/task")
        lists = (self._read(f"{pid}/task/{thread}/children") for thread in threads)
        return [int(child) for children in lists for child in children.split()]

    def _stat(self, pid: int) -> list[bytes]:
        """Return the fields of a thread's stat from its state to the CPU time of its children; empty if it is gone.

        The file is read into a page that forks do not inherit: its other fields, such as the process name and blocked
        signals, are program-controlled and must not leak into later runs.
        """
        try:
            descriptor = os.open(f"{pid}/stat", os.O_RDONLY, dir_fd=self._proc)
        except OSError:
            return []
        try:
            length = os.readv(descriptor, [self._page])
        except OSError:
            return []
        finally:
            os.close(descriptor)
        start = end = self._page.rfind(b")", 0, length) + 1
        for _ in range(_STAT_FIELDS):
            end = self._page.find(b" ", end + 1, length)
        return self._page[start:end].split()

    def _read(self, path: str) -> bytes:
        """Return the content of a file below /proc; empty if its process has ended, or the kernel has no such file."""
        try:
            descriptor = os.open(path, os.O_RDONLY, dir_fd=self._proc)
        except OSError:
            return b""
        try:
            return os.read(descriptor, 1 << 16)
        except OSError:
            return b""
        finally:
            os.close(descriptor)

    def _list(self, path: str) -> list[str]:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._proc)
        except OSError:
            return []
        try:
            return os.listdir(descriptor)
        except OSError:
            return []
        finally:
            os.close(descriptor)


def _until(deadline: float, pids: Iterable[int]) -> Iterator[int]:
    """Yield the pids, at least one, until the deadline (monotonic seconds) or until the scan has used its CPU time."""
    cpu_deadline = time.thread_time() + _MAX_SCAN_CPU_SECONDS
    for pid in pids:
        yield pid
        if time.monotonic() >= deadline or time.thread_time() >= cpu_deadline:
            return


def kill_children(except_pids: Collection[int]) -> None:
    """Kill and reap all children of this process, which is a subreaper, except these."""
    tree = f"/proc/self/task/{os.getpid()}/children"
    while True:
        with open(tree) as file:
            others = {int(pid) for pid in file.read().split()}.difference(except_pids)
        if not others:
            return
        for pid in others:
            os.kill(pid, signal.SIGKILL)  # safe: an unreaped child keeps its pid
        for pid in others:
            os.waitpid(pid, linux.WAIT_ALL)
