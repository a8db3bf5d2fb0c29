"""What was already executed, one JSON line per problem, written as results come.

A line is flushed before the next result is waited for, so killing the process loses at most the line in hand.
A torn last line is cut off when the journal is opened again.
"""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Journal:
    """Records under keys that name everything the record depends on; one process writes at a time."""

    def __init__(self, path: Path) -> None:
        self._records: dict[str, Any] = {}
        self._file = path.open("a+b")
        self._file.seek(0)
        end = 0
        for line in self._file:
            try:
                key, record = json.loads(line)
                if not line.endswith(b"\n"):
                    break
                self._records[key] = record
            except (ValueError, TypeError):  # torn, or nothing that was ever added
                break
            end += len(line)
        self._file.truncate(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def __getitem__(self, key: str) -> Any:
        return self._records[key]

    def add(self, key: str, record: Any) -> None:
        """Keep the record; it is in the operating system's hands when this returns."""
        self._file.write(json.dumps([key, record]).encode() + b"\n")
        self._file.flush()
        self._records[key] = record
