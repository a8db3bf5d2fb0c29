"""Names that say which process owns a cgroup or a directory, so that what killed owners have left can be found.

Others may plant such names where everybody may write. So only what belongs to our user and has outlived its owner is
removed, and through descriptors: no link is followed, and nothing can be swapped in after it was checked.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from sandbox.jail import directories

PREFIX = "curate-sandbox-"

_PF_EXITING = 4  # of the kernel's include/linux/sched.h


def owner_tag() -> str:
    """Return a name that marks a resource as owned by this process, so that others can remove it afterwards."""
    return f"{PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{_pid_namespace()}"


def is_stale(name: str) -> bool:
    """Return whether something of this name has outlived its owner. False if the owner is in another pid namespace,
    where we cannot tell."""
    parts = name.removeprefix(PREFIX).split("-")
    if not name.startswith(PREFIX) or len(parts) < 3 or not parts[0].isdecimal() or parts[2] != _pid_namespace():
        return False
    try:
        return _start_time(int(parts[0])) != parts[1]
    except OSError:  # no descriptor left, for example: that does not mean that the owner is dead
        return False


def is_ending(state: int) -> bool:
    """Return whether a process is dead, or dying: it has lost its sockets some time before its pidfd says so.

    state    descriptor of its /proc/PID/stat
    """
    try:
        fields = os.pread(state, 1 << 12, 0).rsplit(b")", 1)[1].split()
    except ProcessLookupError:
        return True
    return fields[0] in b"ZX" or int(fields[6]) & _PF_EXITING != 0


def make_run_directory() -> str:
    """Make an empty directory that this process owns, and return its path."""
    return tempfile.mkdtemp(prefix=f"{owner_tag()}-")


def sweep_directories() -> None:
    """Remove the directories that killed processes have left, as far as possible."""
    with contextlib.suppress(OSError):
        folder = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in filter(is_stale, os.listdir(folder)):
                with contextlib.suppress(OSError):  # another process may sweep at the same time
                    _remove(folder, name)
        finally:
            os.close(folder)


def _remove(folder: int, name: str) -> None:
    """Remove a directory of ours, and nothing else. Raises OSError."""
    directory = os.open(name, directories.OPEN_DIRECTORY_FLAGS, dir_fd=folder)
    try:
        status = os.fstat(directory)
        if status.st_uid != os.geteuid():
            return
        directories.empty_directory_fd(directory)
        if os.path.samestat(status, os.stat(name, dir_fd=folder, follow_symlinks=False)):
            os.rmdir(name, dir_fd=folder)
    finally:
        os.close(directory)


def _pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _start_time(pid: int) -> str:
    """Return the start time of a process, which distinguishes it from a later one with the same pid; "" if there is
    none or it is dead. Raises OSError if that cannot be seen."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
