"""Empty directories that programs have filled, without following any link that they have made."""

import contextlib
import os

AS_IT_IS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # to open a directory, whatever its mode


def empty(directory: str) -> None:
    """Remove everything in a directory, whatever modes a program of our uid has set. Raises OSError, also if the
    directory has become a link."""
    opened = os.open(directory, AS_IT_IS)
    try:
        empty_opened(opened)
    finally:
        os.close(opened)


def empty_opened(directory: int) -> None:
    """Do the same for a directory that was opened AS_IT_IS. Raises OSError.

    The subfolders of a folder are moved up before it is removed: a program can nest them deeper than we could follow
    with one descriptor per level. No path is walked, so no link is followed.
    """
    top = _writable(directory)
    try:
        while names := os.listdir(top):
            for name in names:
                _remove(name, top)
    finally:
        os.close(top)


def _remove(name: str, top: int) -> None:
    """Remove an entry of the directory `top`; the folders in it are moved to `top`."""
    with contextlib.suppress(IsADirectoryError):
        os.unlink(name, dir_fd=top)
        return
    folder = _open_writable(name, top)
    try:
        for below in os.listdir(folder):
            try:
                os.unlink(below, dir_fd=folder)
            except IsADirectoryError:
                os.close(_open_writable(below, folder))  # only a folder that is writable may be moved
                os.rename(below, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=top)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def _open_writable(name: str, parent: int) -> int:
    opened = os.open(name, AS_IT_IS, dir_fd=parent)
    try:
        return _writable(opened)
    finally:
        os.close(opened)


def _writable(directory: int) -> int:
    """Make a directory that was opened AS_IT_IS writable for us, and return a descriptor to read it."""
    itself = f"/proc/self/fd/{directory}"
    os.chmod(itself, 0o700)
    return os.open(itself, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
