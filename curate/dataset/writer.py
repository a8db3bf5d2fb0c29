"""Write the tables of a dataset, in the layout that `datasets.load_dataset(DIR)` opens.

Tables are Parquet files. Only those beside lines of JSON that curate did not build are lines of JSON as well, because
`load_dataset` reads all configs of a folder in one format.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.dataset.digests import RowHasher, write_digests
from curate.problem import COLUMNS, Rejection

if TYPE_CHECKING:
    import pyarrow as pa

# The Hub's viewer refuses to scan row groups of 300 MB, and readers hold one row group in memory at a time.
ROW_GROUP_BYTES = 16 * 2**20
ROW_GROUP_ROWS = 500
FILE_BYTES = 400 * 2**20

Columns = dict[str, tuple[str, str]]  # type and meaning by name

REJECTED_COLUMNS: Columns = {
    "id": ("string", "`source/native-id`"),
    "source": ("string", "name of the source, as `curate sources` lists it"),
    "stage": ("string", "parse, filter, verify, dedup, decontaminate, strength, difficulty or split"),
    "reason": ("string", "a fixed word"),
    "detail": ("string", "for people: what was found"),
    "cause": ("string", "a finer fixed word where there is one, such as why references failed"),
}


def rejected_row(rejection: Rejection) -> dict[str, Any]:
    """Return a rejection as a row of the table `rejected`."""
    return {name: getattr(rejection, name) for name in REJECTED_COLUMNS}


def write(rows: Iterable[dict[str, Any]], rejections: Iterable[Rejection], folder: Path) -> RowHasher:
    """Write `data/`, `rejected/` and `digests.parquet` into the folder and return the hashes of the rows.

    Rows must be sorted by id, so that the same content gives the same files.
    """
    hasher = RowHasher()
    write_table(map(hasher.add, rows), COLUMNS, folder / "data")
    write_table(map(hasher.add_rejected, map(rejected_row, rejections)), REJECTED_COLUMNS, folder / "rejected")
    write_digests(hasher, folder)
    return hasher


def write_table(rows: Iterable[dict[str, Any]], columns: Columns, folder: Path, *, suffix: str = ".parquet") -> None:
    """Write rows into the folder. suffix: the format: .parquet or .jsonl"""
    folder.mkdir(parents=True, exist_ok=True)
    if suffix == ".jsonl":
        with (folder / "train-00000-of-00001.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({name: row[name] for name in columns}) + "\n" for row in rows)
    else:
        _write_parquet(rows, columns, folder)


def _write_parquet(rows: Iterable[dict[str, Any]], columns: Columns, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = schema_of(columns)
    parts: list[Path] = []
    group: list[dict[str, Any]] = []
    group_bytes = 0
    writer: pq.ParquetWriter | None = None
    file_bytes = 0

    def flush() -> None:
        nonlocal writer, group_bytes, file_bytes
        if writer is None:
            parts.append(folder / f"part-{len(parts)}")
            writer = pq.ParquetWriter(parts[-1], schema, compression="zstd", write_page_index=True)
        writer.write_table(pa.Table.from_pylist(group, schema=schema))
        file_bytes += group_bytes
        group.clear()
        group_bytes = 0
        if file_bytes >= FILE_BYTES:
            writer.close()
            writer, file_bytes = None, 0

    for row in rows:
        group.append(row)
        group_bytes += _n_characters(row.values())
        if group_bytes >= ROW_GROUP_BYTES or len(group) >= ROW_GROUP_ROWS:
            flush()
    if group or not parts:
        flush()
    if writer is not None:
        writer.close()
    for number, part in enumerate(parts):
        part.rename(folder / f"train-{number:05d}-of-{len(parts):05d}.parquet")


def _n_characters(values: Iterable[Any]) -> int:
    texts = sum([len(value) for value in values if type(value) is str])
    return texts + sum([_n_characters(value) for value in values if type(value) is list])


def schema_of(columns: Columns) -> "pa.Schema":
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
