"""Writers of the tables of a dataset, in the layout that `datasets.load_dataset(DIR)` opens.

Tables are Parquet files, or JSON Lines if `data` is, since `load_dataset` reads all configs of a folder in one format.

Several processes can prepare a table: each writes sorted rows to a part, an Arrow file, and one process merges the
parts. A part also holds the inputs of the hashes and the number of characters of each row, so the merge need not
compute them.
"""

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from curate.dataset.digests import HashedRow, RowHasher, hash_row
from curate.problem import Rejection
from sandbox.closeable import Closeable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Item = TypeVar("Item")
Row = dict[str, Any]

# The Hub's viewer rejects row groups of 300 MB, and readers hold one row group in memory at a time.
ROW_GROUP_BYTES = 16 * 2**20
ROW_GROUP_ROWS = 500
FILE_BYTES = 400 * 2**20
_BATCH_BYTES = 2**20  # size of a batch in a part; a merge holds one batch of each part
# Additional columns of parts: the fields of HashedRow, and the number of characters of a row.
_HASHED = tuple(f"_{name}" for name in HashedRow._fields)
_SIZE = "_size"

Columns = dict[str, tuple[str, str]]  # (type, meaning) of each column, by name

REJECTED_COLUMNS: Columns = {
    "id": ("string", "`source/native-id`"),
    "source": ("string", "name of the source, as `curate sources` lists it"),
    "stage": ("string", "parse, filter, verify, dedup, decontaminate, strength, difficulty or split"),
    "reason": ("string", "machine-readable reason"),
    "detail": ("string", "explanation for people"),
    "cause": ("string", "more precise reason, such as why references failed; empty if there is none"),
}


def make_rejected_row(rejection: Rejection) -> dict[str, Any]:
    """Return a rejection as a row of the table `rejected`."""
    return {name: getattr(rejection, name) for name in REJECTED_COLUMNS}


def write_table(rows: Iterable[Row], columns: Columns, folder: Path, *, suffix: str = ".parquet") -> None:
    """Write rows into the folder. suffix: the format, .parquet or .jsonl"""
    import pyarrow as pa

    if suffix == ".jsonl":
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "train-00000-of-00001.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({name: row[name] for name in columns}) + "\n" for row in rows)
        return
    with ParquetFiles(columns, folder) as files:
        for group, n_characters in group_rows(((row, count_characters(row.values())) for row in rows), ROW_GROUP_BYTES):
            files.write(pa.Table.from_pylist(group, schema=files.schema), n_characters)


def group_rows(rows: Iterable[tuple[Item, int]], max_characters: int) -> Iterator[tuple[list[Item], int]]:
    """Yield lists of at most ROW_GROUP_ROWS rows, each with its number of characters.

    rows            rows, each with its number of characters
    max_characters  number of characters at which a list ends
    """
    group: list[Item] = []
    n_characters = 0
    for row, n in rows:
        group.append(row)
        n_characters += n
        if n_characters >= max_characters or len(group) >= ROW_GROUP_ROWS:
            yield group, n_characters
            group, n_characters = [], 0
    if group:
        yield group, n_characters


class ParquetFiles(Closeable):
    """A writer of the files of a table, each except the last with at least FILE_BYTES characters."""

    def __init__(self, columns: Columns, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.schema = get_schema(columns)
        self._folder = folder
        self._parts: list[Path] = []
        self._writer: pq.ParquetWriter | None = None
        self._n_characters = 0

    def write(self, group: "pa.Table", n_characters: int) -> None:
        """Append a row group."""
        import pyarrow.parquet as pq

        if self._writer is None:
            self._parts.append(self._folder / f"part-{len(self._parts)}")
            self._writer = pq.ParquetWriter(self._parts[-1], self.schema, compression="zstd", write_page_index=True)
        self._writer.write_table(group)
        self._n_characters += n_characters
        if self._n_characters >= FILE_BYTES:
            self._writer.close()
            self._writer, self._n_characters = None, 0

    def close(self) -> None:
        """Complete and rename the files. Writes one file even without rows."""
        if not self._parts:
            self.write(self.schema.empty_table(), 0)
        if self._writer is not None:
            self._writer.close()
        for number, part in enumerate(self._parts):
            part.rename(self._folder / f"train-{number:05d}-of-{len(self._parts):05d}.parquet")


def count_characters(values: Iterable[Any]) -> int:
    """Return the total length of all strings, including strings in lists."""
    n_characters = 0
    for value in values:
        if type(value) is str:
            n_characters += len(value)
        elif value and type(value) is list:
            n_characters += count_characters(value)
    return n_characters


def get_schema(columns: Columns) -> "pa.Schema":
    """Return the Arrow schema of a table."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int32": pa.int32(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "list<string>": pa.list_(pa.string()),
        "list<int32>": pa.list_(pa.int32()),
    }
    return pa.schema(
        [pa.field(name, types[kind.rstrip("?")], nullable=kind.endswith("?")) for name, (kind, _) in columns.items()]
    )


def write_part(rows: Iterable[Row], columns: Columns, path: Path, *, table: str) -> None:
    """Write a part of a table. table: `data` or `rejected`"""
    import pyarrow as pa

    schema = get_schema(columns)
    for name in _HASHED:
        schema = schema.append(pa.field(name, pa.binary()))
    schema = schema.append(pa.field(_SIZE, pa.int64()))

    def add_part_columns(row: Row) -> tuple[Row, int]:
        n_characters = count_characters(row.values())
        hashed = zip(_HASHED, hash_row(row, table), strict=True)
        return {**row, **dict(hashed), _SIZE: n_characters}, n_characters

    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema, options=options) as writer:
        for group, _ in group_rows(map(add_part_columns, rows), _BATCH_BYTES):
            writer.write_batch(pa.RecordBatch.from_pylist(group, schema=schema))


def merge_parts(
    paths: Sequence[Path], key: Sequence[str], columns: Columns, folder: Path, hasher: RowHasher
) -> Iterator[int]:
    """Merge parts into the table in a folder, and add the rows to the hashes. Yield the row count of each row group.

    key: columns by which the rows of each part are sorted; equal rows stay in the order of the parts
    """

    def iter_merged_rows() -> Iterator[tuple[tuple["pa.RecordBatch", int], int]]:
        parts = (_read_part(path, key, list(columns)) for path in paths)
        for _, hashed, batch, index, size in heapq.merge(*parts, key=itemgetter(0)):
            hasher.add_hashed(hashed)  # row by row: the inputs of a group's hashes are as large as its rows
            yield (batch, index), size

    with ParquetFiles(columns, folder) as files:
        for group, n_characters in group_rows(iter_merged_rows(), ROW_GROUP_BYTES):
            n_rows = len(group)
            table = _combine_rows(group)
            del group  # frees the memory of its batches
            files.write(table, n_characters)
            del table
            yield n_rows


def _read_part(
    path: Path, key: Sequence[str], columns: Sequence[str]
) -> Iterator[tuple[Any, HashedRow, "pa.RecordBatch", int, int]]:
    """Yield the key of each row, its HashedRow, its batch, its index in the batch, and its number of characters."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as batches:
        for batch in batches:
            keys = zip(*(batch.column(name).to_pylist() for name in key), strict=True)
            sizes = batch.column(_SIZE).to_pylist()
            hashed = map(HashedRow, *(batch.column(name).to_pylist() for name in _HASHED))
            batch = batch.select(columns)
            for index, (values, row, size) in enumerate(zip(keys, hashed, sizes, strict=True)):
                yield values, row, batch, index, size


def _combine_rows(rows: Sequence[tuple["pa.RecordBatch", int]]) -> "pa.Table":
    """Return rows, given as (batch, index), as one table.

    The rows of each batch must have consecutive ascending indices.
    """
    import pyarrow as pa

    first = {id(batch): (batch, index) for batch, index in reversed(rows)}
    n_rows = Counter(id(batch) for batch, _ in rows)
    table = pa.Table.from_batches([batch.slice(index, n_rows[key]) for key, (batch, index) in first.items()])
    table = table.combine_chunks()
    if len(first) == 1:
        return table
    ends = accumulate(n_rows[key] for key in first)
    begins = {key: end - n_rows[key] for key, end in zip(first, ends, strict=True)}
    indices = [begins[id(batch)] + index - first[id(batch)][1] for batch, index in rows]
    return table.take(pa.array(indices))
