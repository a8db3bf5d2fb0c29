"""The processes of a Sandbox, and what bears their names: known once seen, so that what they leave behind is found."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from sandbox.jail.leftovers import PREFIX

_SECONDS = 20  # that something may take to be gone
_CGROUPS = Path("/sys/fs/cgroup")


class Family:
    """The head, a process with Sandboxes, and its descendants. place: the head's temporary directory."""

    def __init__(self, head: psutil.Process, place: str | None = None) -> None:
        self.head = head
        self._place = Path(place or tempfile.gettempdir())
        self._seen = {head}

    def members(self) -> list[psutil.Process]:
        """All that descend from the head now, zombies included."""
        try:
            found = self.head.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self._seen.update(found)
        return found

    def workers(self) -> dict[psutil.Process, list[psutil.Process]]:
        """worker, which is its warden -> its zygotes. Those that live: one that was killed stays a zombie until it is
        missed."""
        return {
            worker: [one for one in below if _is_zygote(one)] for worker, below in self._below_the_workers().items()
        }

    def judges(self) -> dict[psutil.Process, list[psutil.Process]]:
        """worker -> its judge, if that lives."""
        return {
            worker: [one for one in below if not _is_zygote(one)] for worker, below in self._below_the_workers().items()
        }

    def _below_the_workers(self) -> dict[psutil.Process, list[psutil.Process]]:
        parents = {process: _parent(process) for process in self.members() if _is_alive(process)}
        workers = [process for process, parent in parents.items() if parent == self.head.pid]
        return {worker: [one for one, parent in parents.items() if parent == worker.pid] for worker in workers}

    def directories(self) -> list[Path]:
        """Temporary ones, of members past and present."""
        return self._named(self._place.glob(f"{PREFIX}*"), self._seen)

    def cgroups(self) -> list[Path]:
        # Not a glob, which fails at what vanishes while it looks.
        found = (Path(folder, name) for folder, names, _ in os.walk(_CGROUPS) for name in names)
        return self._named((path for path in found if path.name.startswith(PREFIX)), self._seen)

    def left(self) -> list[str]:
        """What has outlived its owner, and goes on doing so."""

        def still() -> list[str]:
            family = {self.head, *self.members()}
            alive = [process for process in self._seen if _is_alive(process)]
            dead = self._seen - set(alive)
            strays = [f"process {process.pid}" for process in alive if process not in family]
            things = [*self._named(self.directories(), dead), *self._named(self.cgroups(), dead)]
            return strays + [str(thing) for thing in things]

        becomes(lambda: not still())
        return still()

    def _named(self, things: Iterable[Path], owners: set[psutil.Process]) -> list[Path]:
        """Those that bear the name of one of the owners."""
        pids = {str(process.pid) for process in owners}
        return [thing for thing in things if thing.name.removeprefix(PREFIX).split("-")[0] in pids]


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true before our patience ends."""
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


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
