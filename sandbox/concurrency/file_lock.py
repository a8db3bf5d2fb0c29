"""Advisory file locks between processes, by flock."""

import fcntl
import os
import time
from pathlib import Path

from sandbox.closeable import Closeable

_POLL_SECONDS = 0.05


class FileLock(Closeable):
    """An flock on a file, held until `close` or the exit of the process.

    path          the file, created if missing; its content is preserved; its folder must exist
    error         exception to raise if another process holds the lock; None for BlockingIOError
    shared        whether to permit other shared locks on the file
    wait_seconds  maximum time to wait for another process
    temporary     whether `close` removes the file

    Child processes do not inherit the lock. Raises OSError if the file is not writable or its file system has no locks.
    """

    def __init__(
        self, path: Path, error: Exception | None = None, *, shared: bool = False, wait_seconds: float = 0.0,
        temporary: bool = False,
    ) -> None:  # fmt: skip
        self._path, self._temporary = path, temporary
        deadline = time.monotonic() + wait_seconds
        while (descriptor := _try_lock(path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)) is None:
            if time.monotonic() >= deadline:
                raise error or BlockingIOError(f"another process holds the lock on {path}")
            time.sleep(_POLL_SECONDS)
        self._descriptor = descriptor
        _open_locks.add(self)

    def close(self) -> None:
        """Release the lock. Further calls have no effect."""
        if self not in _open_locks:
            return
        _open_locks.remove(self)
        if self._temporary:
            self._path.unlink(missing_ok=True)  # before the unlock, so that the next holder creates a new file
        # `close` alone would not unlock: a fork that has not yet called exec has a copy of the descriptor.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


_open_locks: set[FileLock] = set()


def _try_lock(path: Path, operation: int) -> int | None:
    """Lock the file and return its descriptor; None if another process holds the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        # The previous holder may have removed or renamed the file since this process opened it.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(descriptor)
        raise OSError(error.errno, f"flock failed ({error.strerror}); choose another file system", str(path)) from error
    os.close(descriptor)
    return None


def _close_in_child() -> None:
    while _open_locks:
        os.close(_open_locks.pop()._descriptor)  # closes only the child's copy


os.register_at_fork(after_in_child=_close_in_child)
