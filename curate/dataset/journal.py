"""The result journal: one JSON line for each executed problem, appended as results arrive.

A line is flushed before the next result is awaited, so killing the process loses at most the line being written: the
last one, without a newline. It is cut off when the journal is opened again, unless its record is complete. Any other
line that is not a record is an error, because no kill causes one: the file was damaged or edited, and its results may
have been expensive. Records stay in the file until they are needed, because those of a million problems would fill the
memory.
"""

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Generic, TypeVar

from curate.errors import CurateError, OutputInUseError
from sandbox.closeable import Closeable
from sandbox.concurrency.file_lock import FileLock

Found = TypeVar("Found")

_MAX_NAMED = 8  # damaged lines in a message


class ResultJournal(Closeable):
    """Records, each under a key that names everything it depends on. The last record of a key counts.

    The file is locked until `close`.

    Raises CurateError if another process has the journal open, or if a line before the last is not a record.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with ExitStack() as stack:
            stack.enter_context(FileLock(path, OutputInUseError(path)))
            self._places, self._end = _index(path)
            self._file = stack.enter_context(path.open("a+b"))
            self._file.truncate(self._end)
            self._file.seek(max(self._end - 1, 0))
            if self._file.read() not in (b"", b"\n"):  # an editor has removed the last newline, or a kill cut it off
                self._write(b"\n")
            self._resources = stack.pop_all()

    def close(self) -> None:
        self._resources.close()

    def remove(self) -> None:
        """Remove the file, and close the journal."""
        self._path.unlink(missing_ok=True)
        self.close()

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def load(self, key: str, read: Callable[[Any], Found]) -> Found:
        """Return `read` of the record. Raises CurateError, which names the line, if `read` raises ValueError."""
        return _load(self._path, self._places[key], read)

    def add(self, key: str, record: Any) -> None:
        """Append the record. When this returns, the record has been handed to the operating system."""
        place = self._end
        self._write(json.dumps([key, record]).encode() + b"\n")
        self._places[key] = place

    def records(self, keys: Mapping[str, str], read: Callable[[Any], Found]) -> "JournalRecords[Found]":
        """Return the records of some problems.

        keys  by the id of a problem, the key of its record
        read  decodes a stored record
        """
        return JournalRecords(self._path, {id: self._places[key] for id, key in keys.items()}, read)

    def _write(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()
        self._end += len(line)


class JournalRecords(Mapping[str, Found], Generic[Found]):
    """The records of some problems by id. Each access reads the file, and raises CurateError if `read` refuses it."""

    def __init__(self, path: Path, places: dict[str, int], read: Callable[[Any], Found]) -> None:
        self._path, self._places, self._read = path, places, read

    @classmethod
    def open(cls, path: Path, read: Callable[[Any], Found]) -> "JournalRecords[Found]":
        """Return all records by their keys, also while another process adds some.

        Raises CurateError if a line before the last is not a record, and OSError.
        """
        return cls(path, _index(path)[0], read)

    def select(self, ids: Iterable[str]) -> "JournalRecords[Found]":
        """Return only the records of these problems, as far as they have one."""
        return JournalRecords(self._path, {id: self._places[id] for id in ids if id in self._places}, self._read)

    def __getitem__(self, id: str) -> Found:
        return _load(self._path, self._places[id], self._read)

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _index(path: Path) -> tuple[dict[str, int], int]:
    """Return the offset of the last record of each key, and the end of the last record. Raises CurateError."""
    places: dict[str, int] = {}
    damaged: list[int] = []
    end = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if (key := _key(line)) is not None:
                places[key] = end
            elif _is_torn(line):
                break
            else:
                damaged.append(number)
            end += len(line)
    if damaged:
        raise _damage(path, damaged)
    return places, end


def _key(line: bytes) -> str | None:
    """Return the key of the record in a line; None if it is not one that add() has written."""
    try:
        match json.loads(line):
            case [str(key), _]:
                return key
    except (ValueError, RecursionError):
        pass
    return None


def _is_torn(line: bytes) -> bool:
    """Return whether the line is the beginning of one that add() writes, as a kill or a power cut may leave it."""
    return not line.endswith(b"\n") and b'["'.startswith(line.strip(b"\0")[:2])


def _load(path: Path, place: int, read: Callable[[Any], Found]) -> Found:
    with path.open("rb") as file:
        file.seek(place)
        record = json.loads(file.readline())[1]
        try:
            return read(record)
        except ValueError as error:
            file.seek(0)
            raise _damage(path, [file.read(place).count(b"\n") + 1], f" ({error})") from error


def _damage(path: Path, lines: Sequence[int], reason: str = "") -> CurateError:
    named = lines[:_MAX_NAMED]
    more = f" and {len(lines) - len(named)} more" if len(lines) > len(named) else ""
    deletion = ";".join(f"{number}d" for number in named)
    return CurateError(
        f"{path} is damaged: no record at line {', '.join(map(str, named))}{more}{reason}. Restore it from a copy. Or "
        "delete what is damaged, and the command that writes the file repeats only that: "
        f"sed -i '{deletion}' {shlex.quote(str(path))}"
    )
