"""Names that identify the owning process of a cgroup or directory, so that resources of killed owners can be removed.

Other users may plant such names in shared directories. So only this user's entries are removed, and through
descriptors: no link is followed, and no entry can be swapped after the check.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from sandbox.jail import directories

PREFIX = "curate-sandbox-"

_PF_EXITING = 4  # of the kernel's include/linux/sched.h


def owner_tag() -> str:
    """Return the name prefix of this process's resources."""
    return f"{PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{_pid_namespace()}"


def is_stale(name: str) -> bool:
    """Return whether the owner named in a resource's name has exited. False if it is in another pid namespace."""
    parts = name.removeprefix(PREFIX).split("-")
    if not name.startswith(PREFIX) or len(parts) < 3 or not parts[0].isdecimal() or parts[2] != _pid_namespace():
        return False
    try:
        return _start_time(int(parts[0])) != parts[1]
    except OSError:  # no free descriptor, for example: the owner may be alive
        return False


def is_ending(state: int) -> bool:
    """Return whether a process has exited or is exiting, since its sockets close before its pidfd becomes readable.

    state    descriptor of its /proc/PID/stat
    """
    try:
        fields = os.pread(state, 1 << 12, 0).rsplit(b")", 1)[1].split()
    except ProcessLookupError:
        return True
    return fields[0] in b"ZX" or int(fields[6]) & _PF_EXITING != 0


def make_run_directory() -> str:
    """Make an empty directory owned by this process, and return its path."""
    return tempfile.mkdtemp(prefix=f"{owner_tag()}-")


def sweep_directories() -> None:
    """Remove the stale directories of killed processes. Ignores errors."""
    with contextlib.suppress(OSError):
        folder = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in filter(is_stale, os.listdir(folder)):
                with contextlib.suppress(OSError):  # concurrent sweep
                    _remove(folder, name)
        finally:
            os.close(folder)


def _remove(folder: int, name: str) -> None:
    """Remove a directory if this user owns it. Raises OSError."""
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
    """Return the start time of a process, which distinguishes it from a later one with the same pid; "" if it has
    exited. Raises OSError if it cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
