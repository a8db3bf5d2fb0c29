"""Names that tell who owns a cgroup or a directory, so that what killed owners have left can be found."""

import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "curate-sandbox-"


def own_name() -> str:
    """A name for something that this process owns and that must go when it goes."""
    return f"{PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{_pid_namespace()}"


def is_abandoned(name: str) -> bool:
    """Whether a thing of this name has outlived its owner. Of owners in other pid namespaces we cannot tell."""
    parts = name.removeprefix(PREFIX).split("-")
    return len(parts) >= 3 and parts[2] == _pid_namespace() and _start_time(parts[0]) != parts[1]


def make_directory() -> str:
    """An empty directory of this process's own."""
    return tempfile.mkdtemp(prefix=f"{own_name()}-")


def sweep_directories() -> None:
    """Remove the directories that killed processes have left."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        if is_abandoned(directory.name) and directory.stat().st_uid == os.geteuid():
            shutil.rmtree(directory, ignore_errors=True)


def _pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _start_time(pid: int | str) -> str:
    """Distinguishes a process from a later one with the same pid; "" if there is none or it is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
