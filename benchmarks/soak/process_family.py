"""The processes of a Sandbox, and the cgroups and directories named after them."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

from sandbox.kernel.stale_resources import PREFIX

_SECONDS = 20  # timeout for the cleanup of an exited process's resources
_CGROUPS = Path("/sys/fs/cgroup")


class ProcessFamily:
    """A process with Sandboxes (the head), and all descendants that it has had.

    temporary_directory: of the head
    """

    def __init__(self, head: psutil.Process, temporary_directory: str | None = None) -> None:
        self.head = head
        self._temporary = Path(temporary_directory or tempfile.gettempdir())
        self._prefixes = {head: _read_prefix(head)}  # of the names of cgroups and directories, by process

    def list_members(self) -> list[psutil.Process]:
        """Return all current descendants of the head, including zombies."""
        try:
            members = self.head.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self._prefixes |= {member: _read_prefix(member) for member in members if member not in self._prefixes}
        return members

    def find_workers(self) -> dict[psutil.Process, "WorkerChildren"]:
        """Return the warden of each running worker, with its running children; zombies do not count."""
        parents = {process: _read_parent(process) for process in self.list_members() if _is_alive(process)}
        found = {process: WorkerChildren([], []) for process, parent in parents.items() if parent == self.head.pid}
        by_pid = {worker.pid: children for worker, children in found.items()}
        for process, parent in parents.items():
            if parent in by_pid:
                children = by_pid[parent]
                (children.zygotes if _is_zygote(process) else children.judges).append(process)
        return found

    def find_directories(self) -> list[Path]:
        """Return the temporary directories of past and present members."""
        return self._select_owned(self._temporary.glob(f"{PREFIX}*"), self._prefixes)

    def find_cgroups(self) -> list[Path]:
        # A glob would fail if a cgroup vanished during the search.
        found = (Path(folder, name) for folder, names, _ in os.walk(_CGROUPS) for name in names)
        return self._select_owned((path for path in found if path.name.startswith(PREFIX)), self._prefixes)

    def find_leftovers(self) -> list[str]:
        """Wait up to _SECONDS, and return the resources that have outlived their owners."""

        def find() -> list[str]:
            family = {self.head, *self.list_members()}
            alive = [process for process in self._prefixes if _is_alive(process)]
            dead = self._prefixes.keys() - set(alive)
            orphans = [f"process {process.pid}" for process in alive if process not in family]
            return orphans + [
                str(path) for path in self._select_owned([*self.find_directories(), *self.find_cgroups()], dead)
            ]

        wait_until(lambda: not find())
        return find()

    def _select_owned(self, paths: Iterable[Path], owners: Iterable[psutil.Process]) -> list[Path]:
        prefixes = tuple(self._prefixes[owner] for owner in owners)
        return [path for path in paths if path.name.startswith(prefixes)]


class WorkerChildren(NamedTuple):
    """The children of a worker's warden. At most one judge."""

    zygotes: list[psutil.Process]
    judges: list[psutil.Process]


def wait_until(condition: Callable[[], bool]) -> bool:
    """Wait up to _SECONDS for a condition, and return whether it became true."""
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _read_prefix(process: psutil.Process) -> str:
    """Return the prefix of the names of a process's resources: its pid, and its start time because pids are reused."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return f"{PREFIX}{process.pid}-"
    return f"{PREFIX}{process.pid}-{fields[19]}-"


def _read_parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return 0


def _is_zygote(process: psutil.Process) -> bool:
    try:
        return any("sandbox.jail.zygote" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
