"""Locks on files between processes."""

import fcntl
import os
import time
from pathlib import Path

from sandbox.closeable import Closeable

_POLL_SECONDS = 0.05


class FileLock(Closeable):
    """An flock on a file until `close`. The kernel releases it when the process ends, however it ends.

    path          the file, which is created if it is missing and may hold data; its folder must exist
    refusal       raised if another process holds the lock; None: BlockingIOError
    shared        allow other shared locks on the file
    wait_seconds  time to wait for another process
    temporary     let `close` remove the file

    Child processes do not inherit the lock. Raises OSError if the file cannot be opened for writing, or if its file
    system has no locks.
    """

    def __init__(
        self, path: Path, refusal: Exception | None = None, *, shared: bool = False, wait_seconds: float = 0.0,
        temporary: bool = False,
    ) -> None:  # fmt: skip
        self._path, self._temporary = path, temporary
        deadline = time.monotonic() + wait_seconds
        while (descriptor := _try_lock(path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)) is None:
            if time.monotonic() >= deadline:
                raise refusal or BlockingIOError(f"another process holds the lock on {path}")
            time.sleep(_POLL_SECONDS)
        self._descriptor = descriptor
        _held.add(self)

    def close(self) -> None:
        """Release the lock. Further calls have no effect."""
        if self not in _held:
            return
        _held.remove(self)
        if self._temporary:
            self._path.unlink(missing_ok=True)  # while the lock is held
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a child that has not called exec yet still has the descriptor
        os.close(self._descriptor)

    def close_in_child(self) -> None:
        """Close the copy of the descriptor that fork gave to this process. The parent keeps the lock."""
        os.close(self._descriptor)


_held: set[FileLock] = set()


def _try_lock(path: Path, operation: int) -> int | None:
    """Return a descriptor that holds the lock; None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        # The previous holder may have removed or renamed the file after it was opened here.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(descriptor)
        raise OSError(error.errno, "This file system cannot lock files; choose another one", str(path)) from error
    os.close(descriptor)
    return None


def _forget_in_child() -> None:
    while _held:
        _held.pop().close_in_child()


os.register_at_fork(after_in_child=_forget_in_child)
