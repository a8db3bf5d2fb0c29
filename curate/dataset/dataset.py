"""A dataset on disk: its manifest, and the rows of its tables as streams of dictionaries or as problems."""

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from curate.dataset.location import resolve_dataset_folder
from curate.dataset.output_folder import read_manifest
from curate.errors import CurateError
from curate.manifest import Manifest
from curate.problem import DEFAULT_VALUES, Problem, from_row
from curate.reading.values import shorten
from curate.trust import TrustPolicy
from sandbox import Suite

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
# The tests of one row can take tens of megabytes.
BATCH_ROWS = 64
_COMPARED_COLUMNS = ("id", "source", "statement", "tests", "verified")


class Dataset:
    """A dataset folder. Its subfolders `data`, `rejected`, `evidence` and others are tables.

    If curate built the dataset, tables are Parquet files, and rows of `data` are problems. If curate only removed rows
    from it, tables may be JSON Lines, and rows are not problems. Every method that reads a table raises CurateError if
    a file is damaged.
    """

    def __init__(self, path: Path, manifest: Manifest | None = None) -> None:
        """Open the folder of a finished or unfinished dataset. manifest: None to read it on first use"""
        self.path = path
        self._manifest = manifest
        self._group: tuple[int, list[Row]] | None = None  # the row group last read by `load`

    @classmethod
    def open(cls, location: str | Path) -> Self:
        """Open a finished dataset: a folder, or a dataset on the Hub. Raises CurateError for anything else."""
        path = resolve_dataset_folder(location)
        return cls(path, read_manifest(path))

    @classmethod
    def open_built(cls, location: str | Path) -> Self:
        """Open a finished dataset that curate built. Raises CurateError for any other."""
        dataset = cls.open(location)
        if dataset.manifest.build is None:
            raise CurateError(
                f"{dataset.path}: curate did not build this dataset, so its rows are not problems. Pass a dataset that "
                "`curate build-dataset` wrote."
            )
        return dataset.require_problems()

    @property
    def manifest(self) -> Manifest:
        """The manifest. Raises CurateError if the dataset is unfinished."""
        if self._manifest is None:
            self._manifest = read_manifest(self.path)
        return self._manifest

    def list_files(self, table: str) -> list[Path]:
        """Return the files of a table in order; empty if the table does not exist."""
        # Rows of `data` in other formats are not problems, and their columns may have any types.
        suffixes = (".parquet",) if table == "data" else (".parquet", ".jsonl")
        return sorted(path for suffix in suffixes for path in (self.path / table).glob(f"*{suffix}"))

    def read_columns(self, table: str) -> frozenset[str]:
        """Return the names of the columns common to all files of a table; empty if the table does not exist."""
        names = [_read_column_names(path) for path in self.list_files(table)]
        return frozenset.intersection(*names) if names else frozenset()

    def iter_batches(
        self, table: str, columns: Sequence[str] | None = None, *, rows: int = BATCH_ROWS
    ) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of a table in order, in batches. columns: names of the columns to read; None: all"""
        import pyarrow.parquet as pq

        for path in self.list_files(table):
            with translate_read_errors(path):
                if path.suffix == ".jsonl":
                    for batch in _read_line_batches(path, rows):
                        yield batch if columns is None else batch.select(list(columns))
                    continue
                with pq.ParquetFile(path) as file:
                    if missing := set(columns or ()) - set(file.schema_arrow.names):
                        raise ValueError(f"no column {', '.join(sorted(missing))}")
                    yield from file.iter_batches(batch_size=rows, columns=None if columns is None else list(columns))

    def iter_rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """Yield the rows of a table in order. columns: names of the columns to read; None: all

        Columns missing from files of earlier versions get their default values.
        """
        later = DEFAULT_VALUES.keys() & set(columns or ())
        absent = {name: DEFAULT_VALUES[name] for name in (later - self.read_columns(table) if later else ())}
        for batch in self.iter_batches(table, columns and [name for name in columns if name not in absent]):
            yield from (absent | row for row in batch.to_pylist()) if absent else batch.to_pylist()

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return sum(map(_count_rows, self.list_files(table)))

    def find(self, table: str, id: str) -> Iterator[Row]:
        """Yield the complete rows with this id. Reads only the column `id` of row groups without a match."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        if "id" not in self.read_columns(table):
            return
        for path in self.list_files(table):
            with translate_read_errors(path):
                if path.suffix == ".jsonl":
                    lines = (row for batch in _read_line_batches(path, BATCH_ROWS) for row in batch.to_pylist())
                    yield from (row for row in lines if row["id"] == id)
                    continue
                with pq.ParquetFile(path) as file:
                    for group in range(file.num_row_groups):
                        if id in file.read_row_group(group, columns=["id"]).column("id").to_pylist():
                            yield from file.read_row_group(group).filter(pc.field("id") == id).to_pylist()

    def __len__(self) -> int:
        """Return the number of problems."""
        return self._groups[1][-1]

    def __iter__(self) -> Iterator[Problem]:
        """Yield the problems in order, with only the columns that comparisons need."""
        for row in self.iter_rows("data", _COMPARED_COLUMNS):
            with translate_read_errors(self.path):
                suite = Suite.from_json(row.pop("tests"))
                problem = Problem(tests=suite, solutions=None, licence="", **row)
            yield problem

    def require_problems(self) -> Self:
        """Return this dataset. Raises CurateError unless it has a table `data` in Parquet. It may be unfinished."""
        if not self._groups[0] and not self.list_files("data"):
            raise CurateError(f"{self.path}: no data/*.parquet. Pass the folder of a dataset that curate built.")
        return self

    def load(self, position: int) -> Problem:
        """Return a complete problem. Load many problems in order: each access reads a whole row group."""
        import pyarrow.parquet as pq

        groups, ends = self._groups
        number = bisect_right(ends, position)
        path, group = groups[number]
        with translate_read_errors(path):
            if self._group is None or self._group[0] != number:
                with pq.ParquetFile(path) as file:
                    self._group = number, file.read_row_group(group).to_pylist()
            rows = self._group[1]
            return from_row(rows[position - ends[number] + len(rows)])

    def find_exclusion_reasons(self, trust: TrustPolicy) -> dict[str, str]:
        """Return the reason for each excluded problem, by id; see curate.trust."""
        reasons: dict[str, str] = {}
        for position, row in enumerate(self.iter_rows("data", ("id", "verified", "multi_answer_suspect"))):
            suspect = row["multi_answer_suspect"]
            checker = self.load(position).tests.checker if suspect else ""  # only if needed: tests may be large
            reason = trust.find_exclusion_reason(verified=row["verified"], suspect=suspect, checker=checker)
            if reason is not None:
                reasons[row["id"]] = reason
        return reasons

    @cached_property
    def _groups(self) -> tuple[list[tuple[Path, int]], list[int]]:
        """The row groups of `data`, as (file, index), and the cumulative number of rows at the end of each."""
        import pyarrow.parquet as pq

        groups: list[tuple[Path, int]] = []
        ends: list[int] = []
        n_rows = 0
        for path in self.list_files("data"):
            with translate_read_errors(path):
                metadata = pq.read_metadata(path)
            for group in range(metadata.num_row_groups):
                n_rows += metadata.row_group(group).num_rows
                groups.append((path, group))
                ends.append(n_rows)
        return groups, ends or [0]


def find_dataset(path: Path) -> Dataset | None:
    """Open a dataset that curate wrote. Returns None for any other file or folder.

    Raises CurateError for a folder with curate's tables but no manifest; its rejected rows would be read as data.
    """
    try:
        return Dataset(path, read_manifest(path))
    except CurateError:
        if (path / "data").is_dir() and (path / "rejected").is_dir():
            raise CurateError(
                f"{path}: has data/ and rejected/, but no readable manifest.json. Build it again, or pass "
                f"{path / 'data'}."
            ) from None
        return None


def require_outside(out: Path, location: Path, files: Iterable[Path]) -> None:
    """Raise CurateError if writing to `out` would overwrite the dataset at a location, or one of its files."""
    # Unlike Path.resolve, realpath does not fail on a symlink loop.
    target, here, *paths = (Path(os.path.realpath(path)) for path in (out, location, *files))
    if (location.is_dir() and target.is_relative_to(here)) or any(path.is_relative_to(target) for path in paths):
        raise CurateError(f"{out} contains the dataset, or lies inside it. Choose another --out.")


@contextmanager
def translate_read_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a dataset file into a CurateError that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise CurateError(
            f"{path}: not a dataset of this version of curate, or damaged ({shorten(error)}). Build it again."
        ) from error


def _read_column_names(path: Path) -> frozenset[str]:
    import pyarrow.parquet as pq

    with translate_read_errors(path):
        if path.suffix == ".parquet":
            return frozenset(pq.read_schema(path).names)
        return frozenset(name for batch in islice(_read_line_batches(path, 1), 1) for name in batch.schema.names)


def _count_rows(path: Path) -> int:
    import pyarrow.parquet as pq

    with translate_read_errors(path):
        if path.suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        return sum(batch.num_rows for batch in _read_line_batches(path, BATCH_ROWS))


def _read_line_batches(path: Path, size: int) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    with path.open(encoding="utf-8") as file:
        while batch := [json.loads(line) for line in islice(file, size)]:
            yield pa.RecordBatch.from_pylist(batch)
