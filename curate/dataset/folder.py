"""A finished dataset folder as people look at it: its manifest, and the rows of its tables, streamed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from curate.dataset import workspace
from curate.dataset.reader import readable
from curate.errors import CurateError

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
        manifest = workspace.manifest_of(path)
        plan, counts = manifest["plan"], manifest["counts"]
        counted = isinstance(counts, dict) and all(
            isinstance(count, dict) and isinstance(count.get("read"), int) and isinstance(count.get("kept"), int)
            for count in counts.values()
        )
        if not isinstance(plan, dict) or not counted:
            raise CurateError(f"{path / workspace.MANIFEST}: not a manifest of this version of curate. Build it again.")
        return cls(path, manifest)

    def columns(self, table: str) -> frozenset[str]:
        """Names of the columns that all files of a table have; none if there is no such table."""
        import pyarrow.parquet as pq

        found: list[set[str]] = []
        for path in self._files(table):
            with readable(path), pq.ParquetFile(path) as file:
                found.append(set(file.schema_arrow.names))
        return frozenset(set.intersection(*found)) if found else frozenset()

    def batches(
        self, table: str, columns: Sequence[str] | None = None, *, rows: int = BATCH_ROWS
    ) -> Iterator["pa.RecordBatch"]:
        """The table's rows in order, some at a time; only the given columns. Raises CurateError on a damaged file."""
        import pyarrow.parquet as pq

        for path in self._files(table):
            with readable(path), pq.ParquetFile(path) as file:
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
            with readable(path), pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    ids = file.read_row_group(group, columns=[key]).column(key).to_pylist()
                    if id in ids:
                        rows = file.read_row_group(group)
                        yield from (rows.slice(row, 1).to_pylist()[0] for row, one in enumerate(ids) if one == id)

    def _files(self, table: str) -> list[Path]:
        return sorted((self.path / table).glob("*.parquet"))
