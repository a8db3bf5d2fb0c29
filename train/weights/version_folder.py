"""A folder of versions of the weights that processes of one machine and user share: one of them fetches a version, the
others wait and read it from there, and none is removed while a process reads it."""

import os
import shutil
import time
from collections import deque
from contextlib import suppress
from math import inf
from pathlib import Path

from sandbox.concurrency.file_lock import FileLock
from train.errors import TransferError

_LOCK, _IN_USE, _PART = ".lock", ".in-use-", ".part"


class VersionFolder:
    """The versions in a folder, each a folder of its own. It has no other folders.

    keep  versions that this process uses last; no process removes them
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.path, self._keep = folder, keep
        self._used: deque[tuple[str, FileLock]] = deque()  # versions, and the locks on them

    def create(self) -> None:
        """Make the folder unless it is there. Raises OSError, and TransferError if it belongs to another user."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.stat().st_uid != os.getuid():
            raise TransferError(f"{self.path} belongs to another user. Name another folder, or let TMPDIR name one.")

    def part_of(self, version: str) -> Path:
        """Return where a version is put together."""
        return self.path / f"{version}{_PART}"

    def exclusive_lock(self, deadline: float = inf) -> FileLock:
        """Be the one process that changes the folder. Raises TransferError if another one is until that time."""
        in_use = TransferError(f"another process of this machine still fetches to {self.path}")
        return FileLock(self.path / _LOCK, in_use, wait_seconds=deadline - time.monotonic())

    def mark_in_use(self, version: str) -> None:
        """Let other processes know that this one reads a version, and no longer those long before. Needs the lock."""
        for used in [used for used in self._used if used[0] == version]:
            self._used.remove(used)
            used[1].close()
        self._used.append((version, FileLock(self._lock_on(version), shared=True)))
        while len(self._used) > self._keep:
            self._used.popleft()[1].close()

    def remove_unused(self) -> None:
        """Remove all that no process uses. Needs the lock, so that nothing is being fetched."""
        for place in [place for place in self.path.iterdir() if place.is_dir()]:
            self.remove_if_unused(place.name)

    def remove_if_unused(self, version: str) -> None:
        """Remove a version that no process uses. Needs the lock."""
        with suppress(OSError), FileLock(self._lock_on(version), temporary=True):
            shutil.rmtree(self.path / version, ignore_errors=True)

    def close(self) -> None:
        """Use nothing any more, and remove what others do not use either."""
        while self._used:
            self._used.popleft()[1].close()
        # A process that has the lock fetches a version, and removes the others itself.
        with suppress(OSError, TransferError), self.exclusive_lock(0.0):
            self.remove_unused()

    def _lock_on(self, version: str) -> Path:
        return self.path / f"{_IN_USE}{version}"


def default_folder(name: str) -> Path:
    """Return a folder that all processes of this machine and user share that call it the same."""
    return Path(os.environ.get("TMPDIR", "/tmp")) / f"curate-weights-{os.getuid()}" / name
