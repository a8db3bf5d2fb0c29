"""A folder of fetched weights, shared by the processes of one machine and user. flock protects versions in use."""

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
    """A folder with one subfolder per version, and no others.

    keep: number of versions, most recently used by this process, to protect from removal
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.path, self._keep = folder, keep
        self._used: deque[tuple[str, FileLock]] = deque()  # versions, and the locks on them

    def create(self) -> None:
        """Create the folder if missing. Raises OSError, and TransferError if it belongs to another user."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.stat().st_uid != os.getuid():
            raise TransferError(f"{self.path} belongs to another user. Name another folder, or set TMPDIR.")

    def locate_partial(self, version: str) -> Path:
        """Return the folder of a partially downloaded version."""
        return self.path / f"{version}{_PART}"

    def lock_exclusively(self, deadline: float = inf) -> FileLock:
        """Lock the folder for changes. Raises TransferError if another process holds the lock until the deadline.

        deadline: in time.monotonic()
        """
        in_use = TransferError(f"timed out: another process of this machine still holds the lock on {self.path}")
        return FileLock(self.path / _LOCK, in_use, wait_seconds=deadline - time.monotonic())

    def mark_in_use(self, version: str) -> None:
        """Lock a version against removal, and release all but the last `keep`. Requires the exclusive lock."""
        for used in [used for used in self._used if used[0] == version]:
            self._used.remove(used)
            used[1].close()
        self._used.append((version, FileLock(self._lock_on(version), shared=True)))
        while len(self._used) > self._keep:
            self._used.popleft()[1].close()

    def remove_unused(self) -> None:
        """Remove all versions that no process uses, and incomplete ones. Requires the exclusive lock."""
        for folder in [folder for folder in self.path.iterdir() if folder.is_dir()]:
            self.remove_if_unused(folder.name)

    def remove_if_unused(self, version: str) -> None:
        """Remove a version unless a process uses it. Requires the exclusive lock."""
        with suppress(OSError), FileLock(self._lock_on(version), temporary=True):
            shutil.rmtree(self.path / version, ignore_errors=True)

    def close(self) -> None:
        """Release all versions, and remove versions that no other process uses."""
        while self._used:
            self._used.popleft()[1].close()
        # A process that holds the exclusive lock removes unused versions itself.
        with suppress(OSError, TransferError), self.lock_exclusively(0.0):
            self.remove_unused()

    def _lock_on(self, version: str) -> Path:
        return self.path / f"{_IN_USE}{version}"


def locate_default_folder(name: str) -> Path:
    """Return the folder of this name, shared by all processes of this machine and user."""
    return Path(os.environ.get("TMPDIR", "/tmp")) / f"curate-weights-{os.getuid()}" / name
