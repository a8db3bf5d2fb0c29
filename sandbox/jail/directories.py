"""Removal of the contents of programs' directories, without following links."""

import contextlib
import os

from sandbox.jail import linux

OPEN_DIRECTORY_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # work for any mode of the directory


def empty_directory(directory: str) -> None:
    """Remove all entries of a directory, regardless of modes. Raises OSError, also if the directory is a link."""
    opened = os.open(directory, OPEN_DIRECTORY_FLAGS)
    try:
        empty_directory_fd(opened)
    finally:
        os.close(opened)


def empty_directory_fd(directory: int, proc: int | None = None) -> None:
    """Empty a directory, given its descriptor from an open with OPEN_DIRECTORY_FLAGS. Raises OSError.

    proc   descriptor of /proc, for callers that cannot open it

    Moves subfolders to the top before it removes their folder, since a program can nest folders more deeply than the
    limit of descriptors. Walks no paths, and so follows no links.
    """
    opened = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY) if proc is None else os.dup(proc)
    try:
        _Emptier(opened).empty(directory)
    finally:
        os.close(opened)


class _Emptier:
    """Empties directories. proc: descriptor of /proc, which reopens directories without their paths."""

    def __init__(self, proc: int) -> None:
        self._proc = proc

    def empty(self, directory: int) -> None:
        top = self._reopen_writable(directory)
        try:
            while names := os.listdir(top):
                for name in names:
                    self._remove(name, top)
        finally:
            os.close(top)

    def _remove(self, name: str, top: int) -> None:
        """Remove an entry of the directory `top`; move the folders in it to `top`."""
        with contextlib.suppress(IsADirectoryError):
            os.unlink(name, dir_fd=top)
            return
        folder = self._open_writable(name, top)
        try:
            for child in os.listdir(folder):
                try:
                    os.unlink(child, dir_fd=folder)
                except IsADirectoryError:
                    os.close(self._open_writable(child, folder))  # rename needs a writable folder
                    os.rename(child, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=top)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)

    def _open_writable(self, name: str, parent: int) -> int:
        opened = os.open(name, OPEN_DIRECTORY_FLAGS, dir_fd=parent)
        try:
            return self._reopen_writable(opened)
        finally:
            os.close(opened)

    def _reopen_writable(self, directory: int) -> int:
        """Make a directory (opened with OPEN_DIRECTORY_FLAGS) writable, and return a descriptor to read it."""
        path = f"self/fd/{directory}"
        linux.chmod(path, 0o700, self._proc)
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
