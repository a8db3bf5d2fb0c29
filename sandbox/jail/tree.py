"""The processes of a run: what they have used, and where no pid namespace does it, how to end them all."""

import mmap
import os
import shutil
import signal
import time
from collections.abc import Iterator


def seconds(processes: list[str]) -> tuple[float, float]:
    """CPU seconds that /proc entries have used so far, and the longest that one of their threads has waited for
    a processor."""
    used = 0
    longest_wait = 0
    for process in processes:
        try:
            for thread in os.listdir(f"{process}/task"):
                with open(f"{process}/task/{thread}/schedstat") as file:
                    on_cpu, waiting = file.read().split()[:2]
                used += int(on_cpu)
                longest_wait = max(longest_wait, int(waiting))
        except (OSError, ValueError):
            continue  # it ended meanwhile, or this kernel does not say
    return used / 1e9, longest_wait / 1e9


def resident_mb(processes: list[str]) -> float:
    """Memory of /proc entries that they do not share with files."""
    pages = 0
    for process in processes:
        try:
            with open(f"{process}/statm") as file:
                fields = file.read().split()
            pages += int(fields[1]) - int(fields[2])
        except (OSError, ValueError, IndexError):
            continue
    return pages * mmap.PAGESIZE / 2**20


def of_namespace() -> list[str]:
    """/proc entries of a run as pid 1 of the outer pid namespace sees them: everything but itself."""
    return [f"/proc/{name}" for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def of_descendants() -> list[str]:
    """/proc entries of a run where it shares a pid namespace with others: everything below this process."""
    return [f"/proc/{pid}" for pid in _descendants()]


def kill_descendants(keep: int) -> None:
    """Kill everything below this process, which must be a subreaper, and reap all but `keep`, left as a zombie."""
    while True:
        alive = [pid for pid in _descendants() if not _is_zombie(pid)]
        if not alive:
            return
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        reap(keep)
        time.sleep(0.001)


def reap(keep: int = 0) -> None:
    """Collect children that have ended, up to the first that is `keep`."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == keep:
            return
        os.waitpid(ended.si_pid, 0)


def empty(directory: str) -> None:
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _descendants() -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rsplit(b")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    wanted = [os.getpid()]
    while wanted:
        below = children.get(wanted.pop(), [])
        yield from below
        wanted += below


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] in (b"Z", b"X")
    except OSError:
        return True
