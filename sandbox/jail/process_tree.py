"""The processes of a run: what they have used, and how to end them all where no pid namespace does so."""

import mmap
import os
import signal
import time
from collections.abc import Iterator

from sandbox.jail import linux

_TICKS_SECONDS = 0.025  # a running thread's counters move within that
_SLACK_MB = 16  # allowance for what the processes share with the zygote


class ProcessTree:
    """The processes of the run in progress.

    all_but_us  if True, the run is everything in our pid namespace except us, pid 1; otherwise it is all our
                descendants, and we must be a subreaper
    cpu_usage   descriptor of the CPU counter of the cgroup that we and the run are in; -1 without one
    """

    def __init__(self, *, all_but_us: bool, cpu_usage: int) -> None:
        self._all_but_us = all_but_us
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)  # ours; a run's own is mounted over it
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

    def kill(self, keep: int) -> None:
        """Kill all processes of the run, and reap all but `keep`, which is left as a zombie."""
        while True:
            alive = [pid for pid in self._pids() if self._stat(pid)[:1] not in ([b"Z"], [b"X"], [])]
            if not alive:
                return
            for pid in alive:
                try:
                    linux.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            reap(keep)
            time.sleep(0.001)

    def _pids(self) -> list[int]:
        present = [int(name) for name in os.listdir(self._proc) if name.isdigit()]
        if self._all_but_us:
            return [pid for pid in present if pid != os.getpid()]
        children: dict[int, list[int]] = {}
        for pid in present:
            for parent in self._stat(pid)[1:2]:
                children.setdefault(int(parent), []).append(pid)
        descendants: list[int] = []
        pending = [os.getpid()]
        while pending:
            below = children.get(pending.pop(), [])
            descendants += below
            pending += below
        return descendants

    def _stat(self, pid: int) -> list[bytes]:
        """Return the fields of a process's stat after its name: state, parent and so on; empty if it is gone."""
        return self._read(f"{pid}/stat").rpartition(b")")[2].split()

    def _state(self, pid: int) -> bytes:
        """Return the letter of a thread's state; empty if it is gone.

        The file is read into a page that no fork inherits: it also contains a name that the program has given itself,
        which later runs must not find in their memory.
        """
        try:
            descriptor = os.open(f"{pid}/stat", os.O_RDONLY, dir_fd=self._proc)
        except OSError:
            return b""
        try:
            length = os.readv(descriptor, [self._page])
        except OSError:
            return b""
        finally:
            os.close(descriptor)
        end = self._page.rfind(b")", 0, length)
        return self._page[end + 2 : end + 3]

    def _read(self, path: str) -> bytes:
        """Return the content of a file below /proc; empty if its process has gone meanwhile, or the kernel has no such
        file."""
        try:
            descriptor = os.open(path, os.O_RDONLY, dir_fd=self._proc)
        except OSError:
            return b""
        try:
            return os.read(descriptor, 4096)
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


def reap(keep: int = 0) -> None:
    """Reap children that have ended, stopping at the first that is `keep`."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == keep:
            return
        os.waitpid(ended.si_pid, 0)
