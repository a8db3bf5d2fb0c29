"""Read a finished dataset folder: its manifest, and the rows of its tables as a stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from curate.dataset import output_folder, table_files
from curate.dataset.dataset_reader import translate_read_errors
from curate.manifest import Manifest

if TYPE_CHECKING:
    import pyarrow as pa

# The tests of one row can take tens of megabytes; batches of numbers may have more rows.
BATCH_ROWS = 64


@dataclass(frozen=True, slots=True)
class DatasetFolder:
    """A folder that curate wrote. Its tables are the folders in it: data, rejected, evidence and others."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a finished dataset. Raises CurateError if the folder is not one."""
        return cls(path, output_folder.read_manifest(path))

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of the columns that all files of a table have; none if there is no such table."""
        names = [set(table_files.column_names(path)) for path in self._files(table)]
        return frozenset(set.intersection(*names)) if names else frozenset()

    def batches(
        self, table: str, columns: Sequence[str] | None = None, *, rows: int = BATCH_ROWS
    ) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of a table in order and in batches.

        columns: the names of the columns to read; None: all

        Raises CurateError on a damaged file.
        """
        for path in self._files(table):
            yield from table_files.batches(path, columns, rows)

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table in order, as dictionaries."""
        for batch in self.batches(table, columns):
            yield from batch.to_pylist()

    def find(self, table: str, id: str, *, key: str = "id") -> Iterator[dict[str, Any]]:
        """Yield the complete rows whose `key` is this id. Other columns are read only if there is a match."""
        import pyarrow.parquet as pq

        if key not in self.columns(table):
            return
        for path in self._files(table):
            if path.suffix != ".parquet":
                found = (row for batch in table_files.batches(path, None, BATCH_ROWS) for row in batch.to_pylist())
                yield from (row for row in found if row[key] == id)
                continue
            with translate_read_errors(path), pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    ids = file.read_row_group(group, columns=[key]).column(key).to_pylist()
                    if id in ids:
                        rows = file.read_row_group(group)
                        yield from (rows.slice(row, 1).to_pylist()[0] for row, other in enumerate(ids) if other == id)

    def _files(self, table: str) -> list[Path]:
        if table == "data":  # rows of other formats are not problems, and their columns may have any types
            return sorted((self.path / table).glob("*.parquet"))
        return table_files.table_files(self.path / table)
