"""The record of what has been executed, with one JSON line for each problem, written as results arrive.

A line is flushed before the next result is awaited, so killing the process loses at most the line being written.
A torn last line is cut off when the journal is opened again. Records stay in the file until they are needed, because
those of a million problems would fill the memory.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from sandbox.closeable import Closeable

Found = TypeVar("Found")


class ResultJournal(Closeable):
    """Records, each under a key that names everything it depends on. Only one process may write at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        self._file = path.open("a+b")
        self._file.seek(0)
        self._end = 0
        for line in self._file:
            try:
                key, _ = json.loads(line)
                if not line.endswith(b"\n"):
                    break
                self._places[key] = self._end
            except (ValueError, TypeError):  # a torn line, or a line that add() did not write
                break
            self._end += len(line)
        self._file.truncate(self._end)

    def close(self) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, key: str) -> Any:
        return _record(self._path, self._places[key])

    def add(self, key: str, record: Any) -> None:
        """Append the record. When this returns, the record has been handed to the operating system."""
        line = json.dumps([key, record]).encode() + b"\n"
        self._file.write(line)
        self._file.flush()
        self._places[key] = self._end
        self._end += len(line)

    def records(self, keys: Mapping[str, str], read: Callable[[Any], Found]) -> "JournalRecords[Found]":
        """Return the records of some problems.

        keys  by the id of a problem, the key of its record
        read  turns a stored record into the object that it stands for
        """
        return JournalRecords(self._path, {id: self._places[key] for id, key in keys.items()}, read)


class JournalRecords(Mapping[str, Found], Generic[Found]):
    """The records of some problems by id. Each access reads the file."""

    def __init__(self, path: Path, places: dict[str, int], read: Callable[[Any], Found]) -> None:
        self._path, self._places, self._read = path, places, read

    def select(self, ids: Iterable[str]) -> "JournalRecords[Found]":
        """Return only the records of these problems, as far as they have one."""
        return JournalRecords(self._path, {id: self._places[id] for id in ids if id in self._places}, self._read)

    def __getitem__(self, id: str) -> Found:
        return self._read(_record(self._path, self._places[id]))

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _record(path: Path, place: int) -> Any:
    with path.open("rb") as file:
        file.seek(place)
        return json.loads(file.readline())[1]
