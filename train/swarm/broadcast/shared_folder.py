"""A folder of versions that several processes of one machine share: one of them fetches, the others wait and read.

Locks are those of the kernel, so that they end with their process, however it ends.
"""

import fcntl
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from train.errors import TransferError

_LOCK, _IN_USE = ".lock", ".in-use-"
_RETRY_SECONDS = 0.05


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
        self._used: deque[tuple[int, int]] = deque()  # versions, and descriptors of the locks on them

    def version_path(self, version: int) -> Path:
        """Return where a version is, or would be."""
        return self.folder / f"{version:06d}"

    @contextmanager
    def exclusive_lock(self, deadline: float) -> Iterator[None]:
        """Be the one process that changes the folder. Raises TransferError if another one is until that time."""
        with (self.folder / _LOCK).open("ab") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise TransferError(f"another process of this machine still fetches to {self.folder}") from None
                    time.sleep(_RETRY_SECONDS)
            yield

    def mark_in_use(self, version: int) -> None:
        """Let other processes know that this one reads a version, and no longer those long before. Needs the lock."""
        for used in [used for used in self._used if used[0] == version]:
            self._used.remove(used)
            os.close(used[1])
        lock = os.open(self._lock_on(version), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)
        self._used.append((version, lock))
        while len(self._used) > self._keep:
            os.close(self._used.popleft()[1])

    def remove_unused(self) -> None:
        """Remove all that no process uses. Needs the lock, so that nothing is being fetched."""
        for part in self.folder.glob("*.part"):
            shutil.rmtree(part, ignore_errors=True)
        for place in self.folder.iterdir():
            if place.name.isdigit():
                self.remove_if_unused(int(place.name))

    def remove_if_unused(self, version: int) -> None:
        """Remove a version that no process uses. Needs the lock."""
        with suppress(OSError), self._lock_on(version).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self.version_path(version), ignore_errors=True)
            self._lock_on(version).unlink()

    def close(self) -> None:
        """Use nothing any more, and remove what others do not use either."""
        while self._used:
            os.close(self._used.popleft()[1])
        with suppress(OSError, TransferError), self.exclusive_lock(0.0):
            self.remove_unused()

    def _lock_on(self, version: int) -> Path:
        return self.folder / f"{_IN_USE}{version:06d}"
