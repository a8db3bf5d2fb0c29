"""Read the kept rows of a dataset on disk: all rows with the columns that comparisons need, or one row in full."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.problem import Problem, from_row
from curate.reading.values import shorten
from curate.trust import TrustPolicy
from sandbox import Suite

_REQUIRED_COLUMNS = ("id", "source", "statement", "tests", "verified")


class DatasetReader:
    """The folder of a dataset that `curate build-dataset` wrote. Raises CurateError for any other folder."""

    def __init__(self, folder: Path) -> None:
        import pyarrow.parquet as pq

        files = sorted((folder / "data").glob("*.parquet"))
        if not files:
            raise CurateError(f"{folder}: no data/*.parquet inside. Give the folder of a dataset that curate built.")
        self._groups: list[tuple[Path, int]] = []
        self._first_rows: list[int] = []
        self._read: tuple[int, list[dict[str, Any]]] | None = None
        self._n_rows = 0
        for path in files:
            with translate_read_errors(path), pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    self._groups.append((path, group))
                    self._first_rows.append(self._n_rows)
                    self._n_rows += file.metadata.row_group(group).num_rows

    def __len__(self) -> int:
        return self._n_rows

    def __iter__(self) -> Iterator[Problem]:
        """Yield the rows in order, without the solutions and the other columns that are not compared."""
        import pyarrow.parquet as pq

        for path, group in self._groups:
            with translate_read_errors(path), pq.ParquetFile(path) as file:
                rows = file.read_row_group(group, columns=list(_REQUIRED_COLUMNS)).to_pylist()
            for row in rows:
                with translate_read_errors(path):
                    suite = Suite.from_json(row.pop("tests"))
                    problem = Problem(tests=suite, solutions=None, licence="", **row)
                yield problem

    def read_columns(self, *names: str) -> Iterator[dict[str, Any]]:
        """Yield these columns of all rows, in order."""
        import pyarrow.parquet as pq

        for path, group in self._groups:
            with translate_read_errors(path), pq.ParquetFile(path) as file:
                missing = set(names) - set(file.schema_arrow.names)
                if missing:
                    raise KeyError(f"no column {', '.join(sorted(missing))}")
                rows = file.read_row_group(group, columns=list(names)).to_pylist()
            yield from rows

    def exclusion_reasons(self, trust: TrustPolicy) -> dict[str, str]:
        """Return why rows are left out by this rule, by id: words of curate.trust."""
        reasons: dict[str, str] = {}
        for position, row in enumerate(self.read_columns("id", "verified", "multi_answer_suspect")):
            suspect = row["multi_answer_suspect"]
            checker = self.load(position).tests.checker if suspect else ""  # the tests may be large
            reason = trust.exclusion_reason(verified=row["verified"], suspect=suspect, checker=checker)
            if reason is not None:
                reasons[row["id"]] = reason
        return reasons

    def load(self, row: int) -> Problem:
        """Return a complete row. Neighbouring rows are read together, so load many rows in order."""
        import pyarrow.parquet as pq

        number = bisect_right(self._first_rows, row) - 1
        path, group = self._groups[number]
        with translate_read_errors(path):
            if self._read is None or self._read[0] != number:
                with pq.ParquetFile(path) as file:
                    self._read = number, file.read_row_group(group).to_pylist()
            return from_row(self._read[1][row - self._first_rows[number]])


@contextmanager
def translate_read_errors(path: Path) -> Iterator[None]:
    """Turn errors that occur while a file of a dataset is read into a CurateError that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise CurateError(
            f"{path}: not a dataset of this version of curate, or damaged ({shorten(error)}). Build it again."
        ) from error
