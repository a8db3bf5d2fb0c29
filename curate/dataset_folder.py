"""A finished dataset folder as people look at it: its manifest, and the rows of its tables, streamed."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from curate.errors import CurateError
from curate.parsing import short
from curate.workspace import MANIFEST, WORK

if TYPE_CHECKING:
    import pyarrow as pa

# Tests of one row reach tens of megabytes; a batch of numbers may be larger.
BATCH_ROWS = 64


@dataclass(frozen=True, slots=True)
class DatasetFolder:
    """A folder that curate wrote. Its tables are the folders in it: data, rejected, contamination, difficulty."""

    path: Path
    manifest: dict[str, Any]

    @classmethod
    def opened(cls, path: Path) -> Self:
        """The folder with its manifest. Raises CurateError if it is not a finished dataset."""
        if not path.is_dir():
            what = "is a file" if path.exists() else "no such folder"
            raise CurateError(f"{path}: {what}. Give the folder of a dataset that curate built.")
        try:
            manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            if (path / WORK).is_dir():
                raise CurateError(
                    f"{path}: an unfinished build. Finish it first: the command that began it continues."
                ) from None
            raise CurateError(
                f"{path}: has no {MANIFEST}, so it is not a dataset that curate built. Give the folder of one."
            ) from None
        except (OSError, ValueError) as error:
            raise CurateError(f"{path / MANIFEST}: damaged ({short(error)}). Build the dataset again.") from None
        if not isinstance(manifest, dict) or not {"plan", "counts", "content_hash"} <= manifest.keys():
            raise CurateError(f"{path / MANIFEST}: not a manifest of curate. Give the folder of a dataset it built.")
        if not (path / "data").is_dir():
            raise CurateError(f"{path}: has a {MANIFEST} but no data. Build the dataset again, or fetch all of it.")
        return cls(path, manifest)

    def columns(self, table: str) -> frozenset[str]:
        """Names of the columns that all files of a table have; none if there is no such table."""
        import pyarrow.parquet as pq

        found: list[set[str]] = []
        for path in self._files(table):
            with _readable(path), pq.ParquetFile(path) as file:
                found.append(set(file.schema_arrow.names))
        return frozenset(set.intersection(*found)) if found else frozenset()

    def batches(
        self, table: str, columns: Sequence[str] | None = None, *, rows: int = BATCH_ROWS
    ) -> Iterator["pa.RecordBatch"]:
        """The table's rows in order, some at a time; only the given columns. Raises CurateError on a damaged file."""
        import pyarrow.parquet as pq

        for path in self._files(table):
            with _readable(path), pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=rows, columns=None if columns is None else list(columns))

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """The same as plain dictionaries, one at a time."""
        for batch in self.batches(table, columns):
            yield from batch.to_pylist()

    def find(self, table: str, id: str, *, key: str = "id") -> Iterator[dict[str, Any]]:
        """The whole rows whose `key` is this id: the other columns are read only where one is."""
        import pyarrow.parquet as pq

        if key not in self.columns(table):
            return
        for path in self._files(table):
            with _readable(path), pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    ids = file.read_row_group(group, columns=[key]).column(key).to_pylist()
                    if id in ids:
                        rows = file.read_row_group(group)
                        yield from (rows.slice(row, 1).to_pylist()[0] for row, one in enumerate(ids) if one == id)

    def _files(self, table: str) -> list[Path]:
        return sorted((self.path / table).glob("*.parquet"))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Whatever a damaged file raises, as a CurateError that names it."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CurateError(
            f"{path}: damaged or incomplete ({short(error)}). Build the dataset again, or fetch it again."
        ) from error
