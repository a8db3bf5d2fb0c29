"""Removal of all entries of programs' directories, without following links."""

import contextlib
import os

from sandbox.kernel import linux

# O_PATH opens a directory without permission to read it.
OPEN_DIRECTORY_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def empty_directory(directory: str) -> None:
    """Remove all entries of a directory, regardless of modes. Raises OSError, also if the directory is a link."""
    descriptor = os.open(directory, OPEN_DIRECTORY_FLAGS)
    try:
        empty_directory_fd(descriptor)
    finally:
        os.close(descriptor)


def empty_directory_fd(directory: int, proc: int | None = None) -> None:
    """Remove all entries of a directory, given a descriptor with OPEN_DIRECTORY_FLAGS. Raises OSError.

    proc   descriptor of /proc, for callers that cannot open it

    Moves all subfolders to the top of the directory, since a program can nest more folders than a process can have
    descriptors. Uses descriptors instead of paths, and so follows no links.
    """
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY) if proc is None else os.dup(proc)
    try:
        top = _reopen_writable(directory, proc)
        try:
            while names := os.listdir(top):
                for name in names:
                    _remove_entry(name, top, proc)
        finally:
            os.close(top)
    finally:
        os.close(proc)


def _remove_entry(name: str, top: int, proc: int) -> None:
    """Remove an entry of the directory `top`; move the folders in it to `top`."""
    with contextlib.suppress(IsADirectoryError):
        os.unlink(name, dir_fd=top)
        return
    folder = _open_writable(name, top, proc)
    try:
        for child in os.listdir(folder):
            try:
                os.unlink(child, dir_fd=folder)
            except IsADirectoryError:
                os.close(_open_writable(child, folder, proc))  # rename requires a writable folder
                os.rename(child, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=top)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def _open_writable(name: str, parent: int, proc: int) -> int:
    directory = os.open(name, OPEN_DIRECTORY_FLAGS, dir_fd=parent)
    try:
        return _reopen_writable(directory, proc)
    finally:
        os.close(directory)


def _reopen_writable(directory: int, proc: int) -> int:
    """Set mode 0700 for a directory, and return a new descriptor to list its entries."""
    path = f"self/fd/{directory}"
    linux.chmod(path, 0o700, proc)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
