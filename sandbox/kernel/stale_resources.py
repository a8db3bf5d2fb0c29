"""Names of cgroups and directories that identify their owning process, and removal of killed owners' directories.

Other users may create such names in shared directories, so the sweep removes only entries of this user. It uses
descriptors instead of paths, so it follows no links, and no other process can replace an entry after the check.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from sandbox.kernel import directories

PREFIX = "curate-sandbox-"

_PF_EXITING = 4  # process flag in the kernel's include/linux/sched.h


def make_owner_tag() -> str:
    """Return the name prefix of this process's resources."""
    return f"{PREFIX}{os.getpid()}-{_read_start_time(os.getpid())}-{_get_pid_namespace()}"


def is_stale(name: str) -> bool:
    """Return whether the owner of a resource has exited; False if the owner is in another pid namespace."""
    parts = name.removeprefix(PREFIX).split("-")
    if not name.startswith(PREFIX) or len(parts) < 3 or not parts[0].isdecimal() or parts[2] != _get_pid_namespace():
        return False
    try:
        return _read_start_time(int(parts[0])) != parts[1]
    except OSError:  # such as EMFILE: the owner may be alive
        return False


def is_exiting(stat_fd: int) -> bool:
    """Return whether a process is exiting or has exited; its sockets close before its pidfd becomes readable.

    stat_fd   descriptor of /proc/PID/stat
    """
    try:
        fields = os.pread(stat_fd, 1 << 12, 0).rsplit(b")", 1)[1].split()
    except ProcessLookupError:
        return True
    return fields[0] in b"ZX" or int(fields[6]) & _PF_EXITING != 0


def make_run_directory() -> str:
    """Make an empty directory owned by this process, and return its path."""
    return tempfile.mkdtemp(prefix=f"{make_owner_tag()}-")


def sweep_directories() -> None:
    """Remove the stale directories of killed processes. Ignores errors."""
    with contextlib.suppress(OSError):
        folder = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in filter(is_stale, os.listdir(folder)):
                with contextlib.suppress(OSError):  # another process may be removing it
                    _remove_directory(folder, name)
        finally:
            os.close(folder)


def _remove_directory(folder: int, name: str) -> None:
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


def _get_pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _read_start_time(pid: int) -> str:
    """Return the start time of a process, which distinguishes it from a later one with the same pid.

    Returns "" if it has exited. Raises OSError.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
