"""A file of JSON lines that an interrupted command leaves behind, and to which the same command appends the rest."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class PartialFile:
    """Collects lines in a partial file beside `out`, which becomes `out` once it is complete.

    out    the file to write in the end
    work   the name of the work. It is part of the partial file's name, so that no other work continues the file

    Raises OSError, before any work is done, if the file cannot be written.
    """

    def __init__(self, out: Path, work: str) -> None:
        self._out = out
        self.path = out.with_name(f"{out.name}.{work}.partial")
        if out.parent.exists() and not out.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "This is not a folder", str(out.parent))
        out.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8"):  # to find out whether the file can be written
            pass
        self.n_lines = _whole_lines(self.path)  # those that an interrupted command has left

    @property
    def free_bytes(self) -> int:
        """The space that is free for the file."""
        return shutil.disk_usage(self.path.parent).free

    def discard_if_empty(self) -> None:
        """Remove the partial file if nothing has been written to it."""
        if self.path.exists() and not self.path.stat().st_size:
            self.path.unlink()

    @contextmanager
    def open_for_append(self) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Yield a function that appends a line; the line is saved when that function returns."""
        with self.path.open("a", encoding="utf-8") as file:

            def append(record: Mapping[str, Any]) -> None:
                file.write(json.dumps(record) + "\n")
                file.flush()

            yield append

    def commit(self) -> None:
        """Rename the partial file to the file to write."""
        self.path.rename(self._out)


def _whole_lines(path: Path) -> int:
    """Return the number of complete lines of a file, and cut off an incomplete last one."""
    data = path.read_bytes()
    os.truncate(path, data.rfind(b"\n") + 1)
    return data.count(b"\n")
