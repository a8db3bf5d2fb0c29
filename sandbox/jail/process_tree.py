"""The processes of a run: what they have used, and how to end them all where no pid namespace does so."""

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
_TICKS_SECONDS = 0.025  # a running thread's counters move within that
_STAT_FIELDS = 22
_USED_TICKS, _RESIDENT_PAGES = slice(11, 15), 21  # indices of these fields
_MAX_WATCHED_THREADS = 4  # threads whose waits we can look at on a busy machine
_NICE_THRESHOLD = 32  # processes and threads: a run in a cgroup that has more gives way to us
_NICE_INCREMENT = 10  # added to its niceness: a ninth of our weight
_SLACK_MB = 16  # allowance for what the processes share with the zygote
_MAX_SCAN_SECONDS = 1.0  # the longest look at all processes of a run
_MAX_SCAN_CPU_SECONDS = 0.1  # and the most that it may cost: on a busy machine, most of the time is spent waiting
# Times the CPU time that it took to measure what the processes share, until it is measured again.
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
    all_but_us  if True, the run is everything in our pid namespace except us, pid 1; otherwise it is all our
                descendants, and we must be a subreaper
    uid         the uid that all processes of the run have, and no others that we can see; None if there is no such uid
    counters    of the cgroup that we and the run are in; None without one

    Nothing that a program has made, such as the name of a process, is kept in memory that later runs inherit.
    """

    def __init__(self, proc: int, *, all_but_us: bool, uid: int | None, counters: CgroupCounterFds | None) -> None:
        self._all_but_us = self._has_init = all_but_us  # the init of a pid namespace only sleeps
        self._uid = uid
        self._proc = proc
        self._counters = counters
        self._before = 0.0
        self._kills_before = b""
        self._hid_waits = False  # result of the last check
        self._looked = 0.0  # when that was, in monotonic seconds
        self._measured_again = 0.0  # earliest next measurement of shared memory, in monotonic seconds
        self._own_waits = os.open("self/schedstat", os.O_RDONLY, dir_fd=proc)
        self._own_wait_seconds = 0.0  # at our last answer to a notification
        self._runnable_seconds = 0.0  # while it had several processes, one of them running or waiting for a processor
        self._answer_seconds = 0.0  # since the last look, while we waited for a processor and it for our answers
        self._unanswered_seconds = 0.0  # the sum of these, apart from those while it was runnable
        self._page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page.madvise(mmap.MADV_DONTFORK)

    def begin(self) -> None:
        """Start counting CPU time and processes that are killed."""
        self._before, self._kills_before = self._counted(), self._kills()
        self._hid_waits, self._looked, self._runnable_seconds = False, time.monotonic(), 0.0
        self._measured_again = self._answer_seconds = self._unanswered_seconds = 0.0
        self._own_wait_seconds = self._own_wait()

    def exceeded_limit(self, job: RunParams, deadline: float) -> str:
        """Return the limit that the run exceeds: memory, time, or "" if none.

        A run in a cgroup exceeds its memory as soon as the kernel has killed one of its processes for that. Without a
        cgroup, what cannot be measured before the deadline, in monotonic seconds, is left out: to look at a hundred
        busy processes can take a minute.
        """
        if self._counters is not None:
            if int(os.pread(self._counters.tasks, 32, 0)) > _NICE_THRESHOLD:
                self._give_way()
            now = time.monotonic()
            if self._all_but_us and self._is_runnable():
                self._runnable_seconds += now - self._looked
            else:
                self._unanswered_seconds += self._answer_seconds
            self._looked, self._answer_seconds = now, 0.0
            holds_too_much = self._kills() != self._kills_before
            used_seconds = self.cpu_seconds()
        else:
            deadline = min(deadline, time.monotonic() + _MAX_SCAN_SECONDS)
            pids = self._pids()
            self._hid_waits = self._hides_waits(pids)
            # Parents before their children: one that ends meanwhile is not counted twice.
            stats = [stat for stat in map(self._stat, _until(deadline, pids)) if stat]
            used_seconds = sum(int(ticks) for stat in stats for ticks in stat[_USED_TICKS]) / _TICKS
            resident_kb = sum(int(stat[_RESIDENT_PAGES]) for stat in stats) * mmap.PAGESIZE >> 10
            holds_too_much = resident_kb > job.memory_mb << 10 and self._holds_more_than(job.memory_mb, pids, deadline)
        if holds_too_much:
            return "memory"
        return "time" if job.exceeds_cpu_limit(used_seconds) else ""

    def _is_runnable(self) -> bool:
        """Return whether the run has several processes, one of which is running or waits for a processor."""
        pids = self._pids()
        return len(pids) > 2 and any(self._stat(pid)[:1] == [b"R"] for pid in pids)  # the first is the run's init

    def record_syscall_answer(self) -> None:
        """Count the time for which we waited for a processor, and the run for our answer to one of its calls."""
        waited_before, self._own_wait_seconds = self._own_wait_seconds, self._own_wait()
        self._answer_seconds += self._own_wait_seconds - waited_before

    def _own_wait(self) -> float:
        """Return for how many seconds this process has waited for a processor since it began."""
        return int(os.pread(self._own_waits, 64, 0).split()[1]) / 1e9

    def _give_way(self) -> None:
        """Lower the priority of the run's many threads, or we would wait for a hundred of them again and again.

        In a cgroup, the run as a whole gets no less of the machine for it. Without CAP_SYS_NICE, we may not do so if
        programs have a uid of their own.
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
        """Return the CPU seconds of all processes of the run, including those that nobody waited for; 0 without a
        cgroup."""
        return max(0.0, self._counted() - self._before)

    def _counted(self) -> float:
        if self._counters is None:
            return 0.0
        words = os.pread(self._counters.cpu_usage, 64, 0).split()
        seconds = int(words[1]) / 1e6 if words[0] == b"usage_usec" else int(words[0]) / 1e9
        return seconds - time.process_time()

    def cpu_and_wait_seconds(self) -> tuple[float, float]:
        """Return the CPU seconds used so far, and for how many seconds the machine kept the run from a processor.

        The latter is the longest time that one of its threads has waited for a processor, less the time for which it
        may have waited for other threads of the same run. Of short-lived processes, which take their waits with them,
        it is an estimate: the time for which one was runnable whenever we looked, less what all have used. In a cgroup,
        the time is added for which the machine kept us from answering the run's calls.
        """
        if self._hid_waits:
            return 0.0, 0.0
        pids = self._pids()
        threads = [(on_cpu, waited) for _, on_cpu, waited, _ in self._threads(pids)]
        used = max(self.cpu_seconds(), sum(on_cpu for on_cpu, _ in threads) / 1e9)
        if self._hides_waits(pids):
            return used, 0.0
        kept = max(((waited + on_cpu) / 1e9 - used for on_cpu, waited in threads), default=0.0)
        return used, max(0.0, kept, self._runnable_seconds - used) + self._unanswered_seconds

    def is_waiting_for_cpu(self) -> bool:
        """Return whether a thread has been waiting for a processor for some milliseconds. The kernel counts a wait only
        when it is over, so `cpu_and_wait_seconds` does not include this one."""
        if self._hid_waits:
            return False
        pids = self._pids()
        if self._hides_waits(pids):
            return False
        used, started = self.cpu_seconds(), time.monotonic()
        before = set(self._threads(pids))
        time.sleep(_TICKS_SECONDS)
        if self.cpu_seconds() - used > time.monotonic() - started:
            return False  # its threads wait for one another
        return any(thread in before and self._stat(thread[0])[:1] == [b"R"] for thread in self._threads(pids))

    def _hides_waits(self, pids: list[int]) -> bool:
        """Return whether it is unknown how long the machine, not the run itself, kept its threads from a processor.

        Without a cgroup, children that have ended may have used CPU time that we cannot see, and that others waited
        for; and on a busy machine, to look at many threads takes longer than the run may take.
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
        """Return whether the processes hold more memory than that; shared memory counts once, the zygote's pages do not
        count. To measure this is slow, so False is returned unless it is time to do so again."""
        if time.monotonic() < self._measured_again:
            return False
        cpu_seconds_before = time.thread_time()
        proportional_kb = 0
        for pid in _until(deadline, pids):
            share = self._read(f"{pid}/smaps_rollup").partition(b"\nPss:")[2].split()
            proportional_kb += int(share[0]) if share else self._resident_kb(pid)  # not to be read, or gone
            if proportional_kb > (memory_mb + _SLACK_MB) << 10:
                return True
        # CPU time: on a busy machine the wall time is mostly spent waiting, and the memory would be free again by then.
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

        Whoever loses its parent becomes our child, so nobody is left when we have no child. The run cannot outrun us,
        as nobody answers its notifications (seccomp_notify.py) when it forks.
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
        if self._all_but_us:
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

        The file is read into a page that no fork inherits: before and after these fields there is what the program has
        chosen, its name and the signals that it blocks, which later runs must not find in their memory.
        """
        try:
            descriptor = os.open(f"{pid}/stat", os.O_RDONLY, dir_fd=self._proc)
        except OSError:
            return []
        try:
            length = os.readv(descriptor, [self._page])  # a page that no fork inherits, because of the name
        except OSError:
            return []
        finally:
            os.close(descriptor)
        start = end = self._page.rfind(b")", 0, length) + 1
        for _ in range(_STAT_FIELDS):
            end = self._page.find(b" ", end + 1, length)
        return self._page[start:end].split()

    def _read(self, path: str) -> bytes:
        """Return the content of a file below /proc; empty if its process has gone meanwhile, or the kernel has no such
        file."""
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
    """Yield the pids one by one, the first in any case, until the deadline, in monotonic seconds, or until we have
    worked for long enough."""
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
            os.kill(pid, signal.SIGKILL)  # a child that nobody has reaped keeps its pid
        for pid in others:
            os.waitpid(pid, linux.WAIT_ALL)
