"""The work file of a shard: its rows, the records of stages about them, and their rejections, in one SQLite file.

The reader writes a temporary file and renames it, so a shard either has all its rows or is read again. Each record of a
stage is one transaction, in a write-ahead log with synchronous=NORMAL. SIGKILL loses at most the current record, and a
power cut the records of the last seconds. synchronous=FULL would lose none, but takes 12 ms instead of 0.05 ms per
record (medians of 600 on an ext4 disk).
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.errors import CurateError
from curate.json_records import to_json
from curate.problem import Problem, Rejection, decode_problem
from sandbox.closeable import Closeable

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[Any]]

SHARDS = "shards"  # folder of the shards in a work folder
FILE = "rows.sqlite"
BEFORE_STAGES = -1  # stage index of rows that the reader rejected
_BATCH_ROWS, _BATCH_BYTES = 256, 2**20  # size of one INSERT while a shard is read
_CACHE_KIB = 1024  # page cache of each work file; a build has up to a few hundred open

# Problems are in a separate table, because SQLite rewrites the whole row to change one column.
_SCHEMA = """
CREATE TABLE item (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    next_stage INTEGER,
    rejected_by INTEGER,
    rejection TEXT,
    verified INTEGER NOT NULL DEFAULT 0,
    n_tests INTEGER NOT NULL DEFAULT 0,
    cpu_seconds REAL NOT NULL DEFAULT 0
);
CREATE TABLE problem (number INTEGER PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE record (
    number INTEGER, stage TEXT, key TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (number, stage)
) WITHOUT ROWID;
"""
_REMAINING = "(rejected_by IS NULL OR rejected_by >= ?)"


class WorkFile(Closeable):
    """A work file. Rows are numbered in reading order; stages are indices into the build's list.

    Raises CurateError if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = _connect(path)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        except sqlite3.DatabaseError as error:
            if is_full_disk(error):
                raise
            raise CurateError(
                f"{path} is damaged ({error}). Delete {path.parent}, then run the same command to repeat this shard."
            ) from error

    def close(self) -> None:
        self._connection.close()

    def load(self, number: int) -> Problem:
        """Return a problem without the results of its records."""
        row = self._connection.execute("SELECT row FROM problem WHERE number = ?", (number,)).fetchone()[0]
        return decode_problem(row)

    def has_problem(self, number: int) -> bool:
        """Return whether a row is a problem, rather than a rejection by the reader."""
        found = self._connection.execute("SELECT 1 FROM problem WHERE number = ?", (number,))
        return found.fetchone() is not None

    def load_id(self, number: int) -> str:
        return _decode_id(self._connection.execute("SELECT id FROM item WHERE number = ?", (number,)).fetchone()[0])

    def load_rejection(self, number: int) -> tuple[int, Rejection] | None:
        """Return the index of the stage that rejected a row, and the rejection; None for a kept row."""
        found = self._connection.execute("SELECT rejected_by, rejection FROM item WHERE number = ?", (number,))
        stage, rejection = found.fetchone()
        return None if rejection is None else (stage, _load(rejection))

    def load_records(self, number: int) -> dict[str, tuple[str, str]]:
        """Return key and JSON of each record of a problem, by stage name."""
        found = self._connection.execute("SELECT stage, key, record FROM record WHERE number = ?", (number,))
        return {stage: (key, record) for stage, key, record in found}

    def iter_records(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield the number and JSON record of each problem with a record of this stage, by number."""
        return self._connection.execute("SELECT number, record FROM record WHERE stage = ? ORDER BY number", (name,))

    def count_records(self, name: str) -> int:
        """Return the number of problems with a record of this stage."""
        found: int = self._connection.execute("SELECT count(*) FROM record WHERE stage = ?", (name,)).fetchone()[0]
        return found

    def list_keys(self, name: str) -> list[tuple[int, str]]:
        """Return the number and record key of each problem with a record of this stage."""
        return list(self._connection.execute("SELECT number, key FROM record WHERE stage = ?", (name,)))

    def discard_record(self, number: int, name: str, stage: int) -> None:
        """Delete a stage's record of a problem, and a rejection by this or a later stage; mark the problem pending."""
        with self.transaction():
            self._connection.execute("DELETE FROM record WHERE number = ? AND stage = ?", (number, name))
            self._connection.execute("UPDATE item SET next_stage = ? WHERE number = ?", (stage, number))
            self._connection.execute(
                "UPDATE item SET rejected_by = NULL, rejection = NULL WHERE number = ? AND rejected_by >= ?",
                (number, stage),
            )

    def list_pending(self, stage: int, *, include_rejected: bool) -> list[int]:
        """Return the numbers of the problems that a stage must examine.

        The slowest, as predicted by reference time and number of tests, come first to keep all workers busy until the
        end.
        """
        order = "cpu_seconds DESC, n_tests DESC, number"
        query = f"SELECT number FROM item WHERE {_build_pending_sql(include_rejected)} ORDER BY {order}"
        return [number for (number,) in self._connection.execute(query, (stage,))]

    def count_pending(self, stage: int, *, include_rejected: bool) -> int:
        """Return the number of problems that a stage must examine."""
        return self.count(_build_pending_sql(include_rejected), stage)

    def save_result(
        self,
        number: int,
        problem: Problem,
        *,
        record: tuple[str, str, str],
        next_stage: int | None,
        rejection: tuple[int, Rejection] | None,
    ) -> None:
        """Write the result of a stage for a problem, in one transaction.

        record     name of the stage, key and JSON of its record
        rejection  index of the rejecting stage, and the rejection; None if the problem is kept
        """
        stage, text = (None, None) if rejection is None else (rejection[0], _dump(rejection[1]))
        with self.transaction():
            self._connection.execute("INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)", (number, *record))
            self._connection.execute(
                "UPDATE item SET next_stage = ?, rejected_by = ?, rejection = ?, verified = ?, n_tests = ?, "
                "cpu_seconds = ? WHERE number = ?",
                (next_stage, stage, text, *_get_item_columns(problem), number),
            )

    def reject(self, stage: int, rejections: Iterable[tuple[int, Rejection]]) -> None:
        """Reject problems by their numbers, in one transaction."""
        with self.transaction():
            self._connection.executemany(
                "UPDATE item SET rejected_by = ?, rejection = ? WHERE number = ?",
                ((stage, _dump(rejection), number) for number, rejection in rejections),
            )

    def replace_by_rejection(self, number: int, rejection: Rejection) -> None:
        """Replace a problem by the rejection of its row."""
        with self.transaction():
            self._connection.execute("DELETE FROM problem WHERE number = ?", (number,))
            self._connection.execute(
                "UPDATE item SET next_stage = NULL, rejected_by = ?, rejection = ? WHERE number = ?",
                (BEFORE_STAGES, _dump(rejection), number),
            )

    def delete_row(self, number: int) -> None:
        with self.transaction():
            self._connection.execute("DELETE FROM problem WHERE number = ?", (number,))
            self._connection.execute("DELETE FROM item WHERE number = ?", (number,))

    def iter_ids(self, where: str = "TRUE", *values: Any) -> Iterator[tuple[bytes, int]]:
        """Yield the ids, in UTF-8 with surrogates, and numbers of rows, sorted. where: SQL condition on table `item`"""
        return self._connection.execute(f"SELECT id, number FROM item WHERE {where} ORDER BY id, number", values)

    def iter_remaining_ids(self, stage: int) -> Iterator[tuple[bytes, int]]:
        """Yield the ids and numbers of the problems not rejected by earlier stages, sorted."""
        return self.iter_ids(_REMAINING, stage)

    def iter_examined_ids(self, name: str) -> Iterator[tuple[bytes, int]]:
        """Yield the ids and numbers of the kept problems with a record of this stage, sorted."""
        of_stage = "(SELECT number FROM record WHERE stage = ?)"
        return self.iter_ids(f"rejected_by IS NULL AND number IN {of_stage}", name)

    def iter_kept_problems(self) -> Iterator[tuple[int, bytes, bool]]:
        """Yield the number and JSON of each kept problem, and whether it has a record, sorted by id."""
        return self._connection.execute(
            "SELECT item.number, row, EXISTS (SELECT 1 FROM record WHERE record.number = item.number) "
            "FROM item JOIN problem USING (number) WHERE rejected_by IS NULL ORDER BY id, item.number"
        )

    def load_ranking_columns(self, stage: int) -> tuple["Numbers", "Numbers", "Numbers"]:
        """Return the number, `verified` and number of tests of each remaining problem, sorted by number."""
        import numpy as np

        query = f"SELECT number, verified, n_tests FROM item WHERE {_REMAINING} ORDER BY number"
        rows = np.array(list(self._connection.execute(query, (stage,))), dtype=np.uint32).reshape(-1, 3)
        return rows[:, 0].copy(), rows[:, 1].astype(np.uint8), rows[:, 2].copy()

    def iter_rejections(self, stage: int | None = None) -> Iterator[tuple[bytes, int, Rejection]]:
        """Yield id, number and rejection of each row rejected by a stage, sorted by id. stage: None for all"""
        condition = "rejected_by IS NOT NULL" if stage is None else "rejected_by = ?"
        query = f"SELECT id, number, rejection FROM item WHERE {condition} ORDER BY id, number"
        for id, number, rejection in self._connection.execute(query, () if stage is None else (stage,)):
            yield id, number, _load(rejection)

    def count_rejections(self) -> Iterator[tuple[str, str, int]]:
        """Yield stage, reason and number of rows of all rejections."""
        return self._connection.execute(
            "SELECT json_extract(rejection, '$.stage') stage, json_extract(rejection, '$.reason') reason, count(*) "
            "FROM item WHERE rejection IS NOT NULL GROUP BY 1, 2"
        )

    def count(self, condition: str = "TRUE", *values: Any) -> int:
        """Return the number of rows. condition: SQL condition on the table `item`"""
        found: int = self._connection.execute(f"SELECT count(*) FROM item WHERE {condition}", values).fetchone()[0]
        return found

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the statements of this context together, or roll them back on an exception."""
        self._connection.execute("BEGIN")
        try:
            yield
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):  # SQLite has rolled back already if the disk is full
                    self._connection.execute("ROLLBACK")


class NewWorkFile:
    """The work file of a shard that is being read. folder: temporary folder of the shard's files"""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connection = _connect(folder / FILE)
        self._connection.execute("PRAGMA journal_mode=OFF")
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.executescript(_SCHEMA)
        self._connection.execute("BEGIN")
        self._n_items = 0
        # Rows to insert into the tables `item` and `problem`.
        self._items: list[tuple[Any, ...]] = []
        self._rows: list[tuple[int, bytes]] = []
        self._n_bytes = 0

    def add(self, item: Problem | Rejection, row: bytes | None = None, next_stage: int | None = None) -> None:
        """Add a row; rows are numbered from 0.

        item        the problem, or the rejection of the row
        row         the problem as JSON; None for a rejection
        next_stage  index of the first stage that must examine the problem; None for no stage
        """
        values = (
            (None, None, *_get_item_columns(item))
            if isinstance(item, Problem)
            else (BEFORE_STAGES, _dump(item), False, 0, 0.0)
        )
        id = item.id.encode("utf-8", "surrogatepass")
        self._items.append((self._n_items, id, next_stage, *values))
        if row is not None:
            self._rows.append((self._n_items, row))
            self._n_bytes += len(row)
        self._n_items += 1
        if len(self._items) == _BATCH_ROWS or self._n_bytes >= _BATCH_BYTES:
            self._insert()

    def _insert(self) -> None:
        self._connection.executemany("INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._items)
        self._connection.executemany("INSERT INTO problem VALUES (?, ?)", self._rows)
        self._items, self._rows, self._n_bytes = [], [], 0

    def finish(self) -> None:
        self._insert()
        self._connection.execute("CREATE INDEX item_by_id ON item (id, number)")
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


@contextmanager
def create_work_file(folder: Path) -> Iterator[NewWorkFile]:
    """Create the folder of a shard with its work file, by an atomic rename at the end of the block.

    It fsyncs all files before the rename, so a power cut leaves no incomplete shard.
    """
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}.new")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    new = NewWorkFile(temporary)
    try:
        yield new
        new.finish()
    finally:
        new.close()
    for path in (*temporary.iterdir(), temporary):
        _fsync_path(path)
    temporary.rename(folder)
    _fsync_path(folder.parent)


def _fsync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def has_records(path: Path) -> bool:
    """Return whether a work file has records of stages, or is damaged."""
    try:
        with closing(_connect(path)) as connection:
            return connection.execute("SELECT 1 FROM record LIMIT 1").fetchone() is not None
    except sqlite3.DatabaseError:
        return True


def is_full_disk(error: sqlite3.Error) -> bool:
    """Return whether an error means a full disk rather than a damaged file."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def _build_pending_sql(include_rejected: bool) -> str:
    return "next_stage = ?" + ("" if include_rejected else " AND rejected_by IS NULL")


def _get_item_columns(problem: Problem) -> tuple[bool, int, float]:
    return problem.verified, len(problem.tests.cases), problem.cpu_seconds or 0.0


def _dump(rejection: Rejection) -> str:
    return json.dumps(to_json(rejection))


def _load(text: str) -> Rejection:
    return Rejection(**json.loads(text))


def _decode_id(id: bytes) -> str:
    return id.decode("utf-8", "surrogatepass")
