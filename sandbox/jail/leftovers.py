"""Names that tell who owns a cgroup or a directory, so that what killed owners have left can be found.

Others may plant such names where everybody may write. Only what is our own and what a dead process has owned is
removed, through descriptors: no link is followed, and nothing can be put in the place of what was looked at.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from sandbox.jail import tree

PREFIX = "curate-sandbox-"


def own_name() -> str:
    """A name for something that this process owns and that must go when it goes."""
    return f"{PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{_pid_namespace()}"


def is_abandoned(name: str) -> bool:
    """Whether a thing of this name has outlived its owner. Of owners in other pid namespaces we cannot tell."""
    parts = name.removeprefix(PREFIX).split("-")
    if not name.startswith(PREFIX) or len(parts) < 3 or not parts[0].isdecimal() or parts[2] != _pid_namespace():
        return False
    try:
        return _start_time(int(parts[0])) != parts[1]
    except OSError:  # no descriptor left, say: that is no sign of its death
        return False


def make_directory() -> str:
    """An empty directory of this process's own."""
    return tempfile.mkdtemp(prefix=f"{own_name()}-")


def sweep_directories() -> None:
    """Remove the directories that killed processes have left, as far as it can be."""
    with contextlib.suppress(OSError):
        folder = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in filter(is_abandoned, os.listdir(folder)):
                with contextlib.suppress(OSError):  # another one sweeps, too
                    _remove(folder, name)
        finally:
            os.close(folder)


def _remove(folder: int, name: str) -> None:
    """Remove a directory of ours, and nothing else. Raises OSError."""
    directory = os.open(name, tree.AS_IT_IS, dir_fd=folder)
    try:
        found = os.fstat(directory)
        if found.st_uid != os.geteuid():
            return
        tree.empty_seen(directory)
        if os.path.samestat(found, os.stat(name, dir_fd=folder, follow_symlinks=False)):
            os.rmdir(name, dir_fd=folder)
    finally:
        os.close(directory)


def _pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _start_time(pid: int) -> str:
    """Distinguishes a process from a later one with the same pid; "" if there is none or it is dead. Raises OSError
    where that cannot be seen."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
