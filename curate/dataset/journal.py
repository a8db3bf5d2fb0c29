"""The result journal: one JSON line for each executed problem, appended as results arrive.

Each line is flushed immediately, so SIGKILL loses at most the last line, which then has no newline. Reopening the
journal removes this line, unless its record is complete. Any other invalid line raises an error, since only damage or
an edit can cause it, and its result may have been expensive. Memory holds only the offsets of records.
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

Result = TypeVar("Result")

_MAX_NAMED = 8  # maximum number of damaged lines in an error message


class ResultJournal(Closeable):
    """An append-only store of records. A key covers all inputs of a record; the last record of a key counts.

    Locks the file until `close`. Raises CurateError if another process has the journal open, or if a line other than
    the last is not a record.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with ExitStack() as stack:
            stack.enter_context(FileLock(path, OutputInUseError(path)))
            self._offsets, self._end = _index_lines(path)
            self._file = stack.enter_context(path.open("a+b"))
            self._file.truncate(self._end)
            self._file.seek(max(self._end - 1, 0))
            if self._file.read() not in (b"", b"\n"):  # a kill or an edit left no newline after the last record
                self._write(b"\n")
            self._resources = stack.pop_all()

    def close(self) -> None:
        self._resources.close()

    def remove(self) -> None:
        """Delete the file and close the journal."""
        self._path.unlink(missing_ok=True)
        self.close()

    def __contains__(self, key: str) -> bool:
        return key in self._offsets

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def load(self, key: str, decode: Callable[[Any], Result]) -> Result:
        """Return a decoded record. Raises CurateError, which names the line, if `decode` raises ValueError."""
        return _load(self._path, self._offsets[key], decode)

    def add(self, key: str, record: Any) -> None:
        """Append the record and flush it to the operating system."""
        offset = self._end
        self._write(json.dumps([key, record]).encode() + b"\n")
        self._offsets[key] = offset

    def select_records(self, keys: Mapping[str, str], decode: Callable[[Any], Result]) -> "JournalRecords[Result]":
        """Return the records of some problems by id. keys: key of each record, by the problem's id"""
        return JournalRecords(self._path, {id: self._offsets[key] for id, key in keys.items()}, decode)

    def _write(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()
        self._end += len(line)


class JournalRecords(Mapping[str, Result], Generic[Result]):
    """Records by id, read from the file on access. Access raises CurateError if `decode` raises ValueError."""

    def __init__(self, path: Path, offsets: dict[str, int], decode: Callable[[Any], Result]) -> None:
        self._path, self._offsets, self._decode = path, offsets, decode

    @classmethod
    def open(cls, path: Path, decode: Callable[[Any], Result]) -> "JournalRecords[Result]":
        """Return all records by their keys. Another process may append to the file meanwhile.

        Raises CurateError if a line other than the last is not a record, and OSError if the file cannot be read.
        """
        return cls(path, _index_lines(path)[0], decode)

    def select(self, ids: Iterable[str]) -> "JournalRecords[Result]":
        """Return the records of these problems; ids without a record are ignored."""
        return JournalRecords(self._path, {id: self._offsets[id] for id in ids if id in self._offsets}, self._decode)

    def __getitem__(self, id: str) -> Result:
        return _load(self._path, self._offsets[id], self._decode)

    def __contains__(self, id: object) -> bool:
        return id in self._offsets

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)


def _index_lines(path: Path) -> tuple[dict[str, int], int]:
    """Return the offset of the last record of each key, and the offset after the last record of the file."""
    offsets: dict[str, int] = {}
    damaged: list[int] = []
    end = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if (key := _parse_key(line)) is not None:
                offsets[key] = end
            elif _is_torn(line):
                break
            else:
                damaged.append(number)
            end += len(line)
    if damaged:
        raise _build_damage_error(path, damaged)
    return offsets, end


def _parse_key(line: bytes) -> str | None:
    """Return the key of the record in a line; None if the line is not a record."""
    try:
        match json.loads(line):
            case [str(key), _]:
                return key
    except (ValueError, RecursionError):
        pass
    return None


def _is_torn(line: bytes) -> bool:
    """Return whether a kill or a power failure can have left this incomplete line."""
    return not line.endswith(b"\n") and b'["'.startswith(line.strip(b"\0")[:2])


def _load(path: Path, offset: int, decode: Callable[[Any], Result]) -> Result:
    with path.open("rb") as file:
        file.seek(offset)
        record = json.loads(file.readline())[1]
        try:
            return decode(record)
        except ValueError as error:
            file.seek(0)
            raise _build_damage_error(path, [file.read(offset).count(b"\n") + 1], f" ({error})") from error


def _build_damage_error(path: Path, lines: Sequence[int], reason: str = "") -> CurateError:
    named = lines[:_MAX_NAMED]
    more = f" and {len(lines) - len(named)} more" if len(lines) > len(named) else ""
    deletion = ";".join(f"{number}d" for number in named)
    return CurateError(
        f"{path} is damaged: no record at line {', '.join(map(str, named))}{more}{reason}. Restore a copy of it. Or "
        "delete the damaged lines; the command that wrote the file then recomputes only these results: "
        f"sed -i '{deletion}' {shlex.quote(str(path))}"
    )
