"""Records that are too large to hold in memory, kept on disk as they come and found again by key.

Like the Journal, it survives a kill: a record is with the operating system when `add` returns, and a torn last line
is cut off when the shelf is opened again.
"""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Shelf:
    """One thread adds and loads at a time."""

    def __init__(self, path: Path) -> None:
        self._offsets: dict[str, int] = {}
        self._file = path.open("a+b")
        self._file.seek(0)
        end = 0
        for line in self._file:
            try:
                key, _ = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n"):
                break
            self._offsets[key] = end
            end += len(line)
        self._file.truncate(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._offsets

    def add(self, key: str, record: Any) -> None:
        offset = self._file.seek(0, 2)
        self._file.write(json.dumps([key, record]).encode() + b"\n")
        self._file.flush()
        self._offsets[key] = offset

    def load(self, key: str) -> Any:
        self._file.seek(self._offsets[key])
        return json.loads(self._file.readline())[1]
