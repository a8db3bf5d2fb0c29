"""A file of JSON lines that an interrupted command leaves behind, and to which the same command appends the rest."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def name_of_work(content: Path, *words: str) -> str:
    """Return a name for the work on a file, which depends on the file's content and on `words`."""
    with content.open("rb") as file:
        fingerprint = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    return ".".join([fingerprint, *words])


class PartialFile:
    """Collects lines in a partial file beside `out`, which becomes `out` once it is complete.

    out    the file to write in the end
    work   the name of the work. It is part of the partial file's name, so that no other work continues the file
    """

    def __init__(self, out: Path, work: str) -> None:
        self._out = out
        self.path = out.with_name(f"{out.name}.{work}.partial")
        out.parent.mkdir(parents=True, exist_ok=True)
        self.n_lines = _whole_lines(self.path)  # those that an interrupted command has left

    @contextmanager
    def appending(self) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Yield a function that appends a line; the line is saved when that function returns."""
        with self.path.open("a", encoding="utf-8") as file:

            def append(record: Mapping[str, Any]) -> None:
                file.write(json.dumps(record) + "\n")
                file.flush()

            yield append

    def complete(self) -> None:
        """Rename the partial file to the file to write."""
        self.path.rename(self._out)


def _whole_lines(path: Path) -> int:
    """Return the number of complete lines of a file, and cut off an incomplete last one."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    os.truncate(path, data.rfind(b"\n") + 1)
    return data.count(b"\n")
