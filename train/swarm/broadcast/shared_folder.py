"""A folder of versions that several processes of one machine share: one of them fetches, the others wait and read."""

import os
import shutil
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from sandbox.concurrency.file_lock import FileLock
from train.errors import TransferError

_LOCK, _IN_USE = ".lock", ".in-use-"


class SharedVersionFolder:
    """The versions in a folder.

    keep  versions that this process uses last; no process removes them
    """

    def __init__(self, folder: Path, keep: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise TransferError(f"{folder} belongs to another user. Name another folder.")
        self.folder = folder
        self._keep = keep
        self._used: deque[tuple[int, FileLock]] = deque()  # versions, and the locks on them

    def version_path(self, version: int) -> Path:
        """Return where a version is, or would be."""
        return self.folder / f"{version:06d}"

    def exclusive_lock(self, deadline: float) -> FileLock:
        """Be the one process that changes the folder. Raises TransferError if another one is until that time."""
        in_use = TransferError(f"another process of this machine still fetches to {self.folder}")
        return FileLock(self.folder / _LOCK, in_use, wait_seconds=deadline - time.monotonic())

    def mark_in_use(self, version: int) -> None:
        """Let other processes know that this one reads a version, and no longer those long before. Needs the lock."""
        for used in [used for used in self._used if used[0] == version]:
            self._used.remove(used)
            used[1].close()
        self._used.append((version, FileLock(self._lock_on(version), shared=True)))
        while len(self._used) > self._keep:
            self._used.popleft()[1].close()

    def remove_unused(self) -> None:
        """Remove all that no process uses. Needs the lock, so that nothing is being fetched."""
        for part in self.folder.glob("*.part"):
            shutil.rmtree(part, ignore_errors=True)
        for place in self.folder.iterdir():
            if place.name.isdigit():
                self.remove_if_unused(int(place.name))

    def remove_if_unused(self, version: int) -> None:
        """Remove a version that no process uses. Needs the lock."""
        with suppress(OSError), FileLock(self._lock_on(version), temporary=True):
            shutil.rmtree(self.version_path(version), ignore_errors=True)

    def close(self) -> None:
        """Use nothing any more, and remove what others do not use either."""
        while self._used:
            self._used.popleft()[1].close()
        with suppress(OSError, TransferError), self.exclusive_lock(0.0):
            self.remove_unused()

    def _lock_on(self, version: int) -> Path:
        return self.folder / f"{_IN_USE}{version:06d}"
