"""The files of a dataset's smaller tables, such as `rejected/`, as Parquet, Arrow or JSON Lines.

A dataset that curate built has only Parquet files. A copy of another dataset keeps the format of its rows, and its
smaller tables are written in the same format, because `datasets.load_dataset` reads all configs of a folder in one
format.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.dataset.dataset_reader import translate_read_errors
from curate.dataset.writer import schema_of, write_table
from curate.reading.arrow_files import open_batches

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, tuple[str, str]]  # type and meaning by name
SUFFIXES = (".parquet", ".arrow", ".jsonl")
_NAME = "train-00000-of-00001"
_BATCH_ROWS = 500


def table_files(folder: Path) -> list[Path]:
    """Return the files of a table in their order; none if there is no such folder."""
    return sorted(path for suffix in SUFFIXES for path in folder.glob(f"*{suffix}"))


def side_table_suffix(suffix: str) -> str:
    """Return the format in which to write tables beside rows. Both formats are given as the ending of a file name."""
    return ".jsonl" if suffix == ".json" else suffix


def write_table_as(suffix: str, rows: Iterator[dict[str, Any]], columns: Columns, folder: Path) -> None:
    """Write rows into the folder.

    suffix: the format, as the ending of a file name: one of SUFFIXES
    columns: type and meaning of each column, by name
    """
    import pyarrow as pa

    if suffix == ".parquet":
        write_table(rows, columns, folder)
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_NAME}{suffix}"
    if suffix == ".jsonl":
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({name: row[name] for name in columns}) + "\n" for row in rows)
        return
    schema = schema_of(columns)
    with pa.ipc.new_stream(str(path), schema) as stream:
        while batch := list(islice(rows, _BATCH_ROWS)):
            stream.write_table(pa.Table.from_pylist(batch, schema=schema))


def column_names(path: Path) -> list[str]:
    """Return the names of a file's columns. Raises CurateError if the file is damaged."""
    import pyarrow.parquet as pq

    with translate_read_errors(path):
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as file:
                return list(file.schema_arrow.names)
        batch = next(_batches(path, 1), None)
        return [] if batch is None else list(batch.schema.names)


def count_rows(path: Path) -> int:
    """Return the number of a file's rows. Raises CurateError if the file is damaged."""
    import pyarrow.parquet as pq

    with translate_read_errors(path):
        if path.suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        return sum(batch.num_rows for batch in _batches(path, _BATCH_ROWS))


def batches(path: Path, columns: Sequence[str] | None, size: int) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of a file in batches of `size`, with these columns or all. Raises CurateError if it is damaged."""
    import pyarrow.parquet as pq

    with translate_read_errors(path):
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=size, columns=None if columns is None else list(columns))
        else:
            for batch in _batches(path, size):
                yield batch if columns is None else batch.select(list(columns))


def _batches(path: Path, size: int) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    if path.suffix == ".arrow":
        with open_batches(path) as (_, batches):
            yield from batches
        return
    with path.open(encoding="utf-8") as file:
        while batch := [json.loads(line) for line in islice(file, size)]:
            yield pa.RecordBatch.from_pylist(batch)
