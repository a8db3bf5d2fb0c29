"""The processes of a Sandbox and the files named after them, recorded to find leftovers."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from sandbox.jail.stale_resources import PREFIX

_SECONDS = 20  # time within which everything must disappear
_CGROUPS = Path("/sys/fs/cgroup")


class ProcessFamily:
    """A process with Sandboxes, the head, and its descendants. temporary: the head's temporary directory"""

    def __init__(self, head: psutil.Process, temporary: str | None = None) -> None:
        self.head = head
        self._temporary = Path(temporary or tempfile.gettempdir())
        self._prefixes = {head: _prefix(head)}  # of the names of what each process owns, for all ever seen

    def members(self) -> list[psutil.Process]:
        """Return all current descendants of the head, including zombies."""
        try:
            members = self.head.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self._prefixes |= {member: _prefix(member) for member in members if member not in self._prefixes}
        return members

    def workers(self) -> dict[psutil.Process, list[psutil.Process]]:
        """Return the living workers, by their wardens, with the living zygotes of each.

        A killed worker stays a zombie until its supervisor notices.
        """
        return {
            worker: [child for child in below if _is_zygote(child)]
            for worker, below in self._children_by_worker().items()
        }

    def judges(self) -> dict[psutil.Process, list[psutil.Process]]:
        """Return the judge of each living worker, if the judge is alive, too."""
        return {
            worker: [child for child in below if not _is_zygote(child)]
            for worker, below in self._children_by_worker().items()
        }

    def _children_by_worker(self) -> dict[psutil.Process, list[psutil.Process]]:
        parents = {process: _parent(process) for process in self.members() if _is_alive(process)}
        workers = [process for process, parent in parents.items() if parent == self.head.pid]
        return {worker: [child for child, parent in parents.items() if parent == worker.pid] for worker in workers}

    def directories(self) -> list[Path]:
        """Return the temporary directories of past and present members."""
        return self._owned_by(self._temporary.glob(f"{PREFIX}*"), self._prefixes)

    def cgroups(self) -> list[Path]:
        # A glob would fail if something vanished during the search.
        found = (Path(folder, name) for folder, names, _ in os.walk(_CGROUPS) for name in names)
        return self._owned_by((path for path in found if path.name.startswith(PREFIX)), self._prefixes)

    def leftovers(self) -> list[str]:
        """Return resources that outlive their owner for more than _SECONDS."""

        def find() -> list[str]:
            family = {self.head, *self.members()}
            alive = [process for process in self._prefixes if _is_alive(process)]
            dead = self._prefixes.keys() - set(alive)
            strays = [f"process {process.pid}" for process in alive if process not in family]
            things = [*self._owned_by(self.directories(), dead), *self._owned_by(self.cgroups(), dead)]
            return strays + [str(thing) for thing in things]

        becomes(lambda: not find())
        return find()

    def _owned_by(self, things: Iterable[Path], owners: Iterable[psutil.Process]) -> list[Path]:
        """Return the files that are named after one of the owners."""
        prefixes = tuple(self._prefixes[owner] for owner in owners)
        return [thing for thing in things if thing.name.startswith(prefixes)]


def becomes(condition: Callable[[], bool]) -> bool:
    """Wait for a condition, and return whether it became true in time."""
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _prefix(process: psutil.Process) -> str:
    """Return the beginning of the names of what a process owns: its pid and its start time, for pids are reused."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return f"{PREFIX}{process.pid}-"
    return f"{PREFIX}{process.pid}-{fields[19]}-"


def _parent(process: psutil.Process) -> int:
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
