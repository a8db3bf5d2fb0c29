"""The processes of a run: what they have used, and how to end them all where no pid namespace does so."""

import contextlib
import mmap
import os
import signal
import time
from collections.abc import Collection, Iterator

from sandbox.jail import linux

_TICKS_SECONDS = 0.025  # a running thread's counters move within that
_SLACK_MB = 16  # allowance for what the processes share with the zygote


class ProcessTree:
    """The processes of the run in progress.

    proc        descriptor of /proc
    all_but_us  if True, the run is everything in our pid namespace except us, pid 1; otherwise it is all our
                descendants, and we must be a subreaper
    cpu_usage   descriptor of the CPU counter of the cgroup that we and the run are in; -1 without one

    Nothing that a program has made, such as the name of a process, is kept in memory that later runs inherit.
    """

    def __init__(self, proc: int, *, all_but_us: bool, cpu_usage: int) -> None:
        self._all_but_us = all_but_us
        self._proc = proc
        self._cpu_usage = cpu_usage
        self._before = 0.0
        self._page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page.madvise(mmap.MADV_DONTFORK)

    def begin(self) -> None:
        """Start counting CPU time."""
        self._before = self._counted()

    def used_seconds(self) -> float:
        """Return the CPU seconds of all processes of the run, including those that nobody waited for; 0 without a
        cgroup."""
        return max(0.0, self._counted() - self._before)

    def _counted(self) -> float:
        if self._cpu_usage < 0:
            return 0.0
        words = os.pread(self._cpu_usage, 64, 0).split()
        seconds = int(words[1]) / 1e6 if words[0] == b"usage_usec" else int(words[0]) / 1e9
        return seconds - time.process_time()

    def seconds(self) -> tuple[float, float]:
        """Return the CPU seconds used so far, and for how many seconds the machine kept the run from a processor.

        The latter is the longest time that one of its threads has waited for a processor, less the time for which it
        may have waited for other threads of the same run.
        """
        pids = self._pids()
        threads = [(on_cpu, waited) for _, on_cpu, waited, _ in self._threads(pids)]
        used = max(self.used_seconds(), sum(on_cpu for on_cpu, _ in threads) / 1e9)
        if self._hides_children(pids):
            return used, 0.0
        kept = max(((waited + on_cpu) / 1e9 - used for on_cpu, waited in threads), default=0.0)
        return used, max(0.0, kept)

    def is_waiting(self) -> bool:
        """Return whether a thread has been waiting for a processor for some milliseconds. The kernel counts a wait only
        when it is over, so `seconds` does not include this one."""
        pids = self._pids()
        if self._hides_children(pids):
            return False
        used, started = self.used_seconds(), time.monotonic()
        before = set(self._threads(pids))
        time.sleep(_TICKS_SECONDS)
        if self.used_seconds() - used > time.monotonic() - started:
            return False  # its threads wait for one another
        return any(thread in before and self._state(thread[0]) == b"R" for thread in self._threads(pids))

    def _hides_children(self, pids: list[int]) -> bool:
        """Return whether children that have ended may have used CPU time that we cannot see, and that other threads may
        have waited for."""
        init = self._all_but_us  # a run in a pid namespace has one, which only sleeps
        return self._cpu_usage < 0 and len(pids) > 1 + init

    def _threads(self, pids: list[int]) -> Iterator[tuple[int, int, int, int]]:
        """Yield (thread id, nanoseconds on a processor, nanoseconds waiting for one, number of times it got one)."""
        for pid in pids:
            for thread in self._list(f"{pid}/task"):
                fields = self._read(f"{pid}/task/{thread}/schedstat").split()
                if len(fields) == 3:
                    yield int(thread), int(fields[0]), int(fields[1]), int(fields[2])

    def exceeds(self, memory_mb: int) -> bool:
        """Return whether the processes hold more memory than that; shared memory counts once, the zygote's pages do not
        count."""
        resident_kb = {pid: self._resident_kb(pid) for pid in self._pids()}
        if sum(resident_kb.values()) < memory_mb << 10:  # cheap, and never less than what follows
            return False
        proportional_kb = 0
        for pid, kb in resident_kb.items():
            share = self._read(f"{pid}/smaps_rollup").partition(b"\nPss:")[2].split()
            proportional_kb += int(share[0]) if share else min(kb, self._resident_kb(pid))  # not to be read, or gone
        return proportional_kb > (memory_mb + _SLACK_MB) << 10

    def _resident_kb(self, pid: int) -> int:
        fields = self._read(f"{pid}/statm").split()
        return int(fields[1]) * mmap.PAGESIZE >> 10 if len(fields) > 1 else 0

    def count(self) -> int:
        """Return the number of threads of all processes of the run."""
        return sum(len(self._list(f"{pid}/task")) for pid in self._pids())

    def has(self, pid: int) -> bool:
        """Return whether a process belongs to the run."""
        return pid in self._pids()

    def kill(self) -> float:
        """Kill and reap all processes of the run, and return their CPU seconds.

        Whoever loses its parent becomes our child, so nobody is left when we have no child. The run cannot outrun us,
        as nobody answers its notifications (notifications.py) when it forks.
        """
        cpu_seconds = 0.0
        while True:
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | linux.WAIT_ALL)
            except ChildProcessError:
                return cpu_seconds
            for pid in self._pids():
                with contextlib.suppress(ProcessLookupError):
                    linux.kill(pid, signal.SIGKILL)
            for pid in self._children(os.getpid()):
                ended, _, usage = os.wait4(pid, os.WNOHANG | linux.WAIT_ALL)
                cpu_seconds += usage.ru_utime + usage.ru_stime if ended else 0
            time.sleep(0.001)

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
        lists = (self._read(f"{pid}/task/{thread}/children") for thread in self._list(f"{pid}/task"))
        return [int(child) for children in lists for child in children.split()]

    def _stat(self, pid: int) -> list[bytes]:
        """Return the fields of a process's or thread's stat after its name: state, parent and so on; empty if it is
        gone."""
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
        return self._page[self._page.rfind(b")", 0, length) + 2 : length].split()

    def _state(self, pid: int) -> bytes:
        """Return the letter of a thread's state; empty if it is gone."""
        return b"".join(self._stat(pid)[:1])

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


def kill_children(but: Collection[int]) -> None:
    """Kill and reap all children of this process, which is a subreaper, except these."""
    tree = f"/proc/self/task/{os.getpid()}/children"
    while True:
        with open(tree) as file:
            others = {int(pid) for pid in file.read().split()}.difference(but)
        if not others:
            return
        for pid in others:
            os.kill(pid, signal.SIGKILL)  # a child that nobody has reaped keeps its pid
        for pid in others:
            os.waitpid(pid, linux.WAIT_ALL)
