"""What was already executed, one JSON line per problem, written as results come.

A line is flushed before the next result is waited for, so killing the process loses at most the line in hand.
A torn last line is cut off when the journal is opened again. Records stay in the file until they are asked for:
those of a million problems would fill the memory.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

Found = TypeVar("Found")


class Journal:
    """Records under keys that name everything the record depends on; one process writes at a time."""

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
            except (ValueError, TypeError):  # torn, or nothing that was ever added
                break
            self._end += len(line)
        self._file.truncate(self._end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __getitem__(self, key: str) -> Any:
        return _record(self._path, self._places[key])

    def add(self, key: str, record: Any) -> None:
        """Keep the record; it is in the operating system's hands when this returns."""
        line = json.dumps([key, record]).encode() + b"\n"
        self._file.write(line)
        self._file.flush()
        self._places[key] = self._end
        self._end += len(line)

    def records(self, keys: Mapping[str, str], read: Callable[[Any], Found]) -> "Records[Found]":
        """The records of these problems. keys: by the problem's id; read: what makes of a record what it stands for."""
        return Records(self._path, {id: self._places[key] for id, key in keys.items()}, read)


class Records(Mapping[str, Found], Generic[Found]):
    """What a journal holds of some problems by their ids, read from the file each time."""

    def __init__(self, path: Path, places: dict[str, int], read: Callable[[Any], Found]) -> None:
        self._path, self._places, self._read = path, places, read

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
