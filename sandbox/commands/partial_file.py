"""The partial JSON Lines output of a command, which the same command resumes after an interruption."""

import errno
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sandbox.closeable import Closeable
from sandbox.concurrency.file_lock import FileLock


class PartialFile(Closeable):
    """A partial file in the folder of `out`, renamed to `out` once it is complete.

    out           the complete file
    fingerprint   hash of the command's inputs, part of the partial file's name, so that only the same inputs resume it

    The file is locked until `close`. Raises OSError if it cannot be written, and ClickException if another command
    writes to it, or if a line before the last is corrupt.
    """

    def __init__(self, out: Path, fingerprint: str) -> None:
        self._out = out
        self.path = out.with_name(f"{out.name}.{fingerprint}.partial")
        if out.parent.exists() and not out.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "Not a folder", str(out.parent))
        out.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(
            self.path,
            click.ClickException(f"another command is writing to {self.path}. Wait for it, or choose another --out."),
        )
        self._is_committed = False
        try:
            self.n_lines = _count_complete_lines(self.path)  # more than 0 after an interruption
        except BaseException:
            self._lock.close()
            raise

    @property
    def free_bytes(self) -> int:
        """Free space in the file system of the file."""
        return shutil.disk_usage(self.path.parent).free

    def close(self) -> None:
        """Unlock the partial file, and remove it if nothing has been written to it."""
        if not self._is_committed and not self.path.stat().st_size:
            self.path.unlink()
        self._lock.close()

    @contextmanager
    def open_for_append(self) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Yield a function that appends and flushes a line."""
        with self.path.open("a", encoding="utf-8") as file:

            def append(record: Mapping[str, Any]) -> None:
                file.write(json.dumps(record) + "\n")
                file.flush()

            yield append

    def commit(self) -> None:
        """Rename the file to `out`."""
        self.path.rename(self._out)
        self._is_committed = True


def _count_complete_lines(path: Path) -> int:
    """Truncate an incomplete last line; return the number of lines. Raises ClickException for a corrupt one."""
    n_lines = end = 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            try:
                json.loads(line)
            except ValueError:
                raise click.ClickException(
                    f"{path} is corrupt at line {n_lines + 1}. Restore it from a copy, or delete that line and all "
                    f"later ones, so that the same command repeats them: sed -i '{n_lines + 1},$d' "
                    f"{shlex.quote(str(path))}"
                ) from None
            n_lines, end = n_lines + 1, end + len(line)
    os.truncate(path, end)
    return n_lines
