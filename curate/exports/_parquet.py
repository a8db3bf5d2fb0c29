"""A Parquet file of nested rows, written a row group at a time."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.dataset.writer import ROW_GROUP_BYTES, ROW_GROUP_ROWS

if TYPE_CHECKING:
    import pyarrow as pa


def conversations() -> "pa.DataType":
    """The type of a column of conversations, as datasets and trainers write it."""
    import pyarrow as pa

    return pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))


def write_parquet(rows: Iterable[tuple[dict[str, Any], int]], schema: "pa.Schema", path: Path) -> None:
    """rows: each with its size in bytes, roughly; no more than a row group of them is held."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    group: list[dict[str, Any]] = []
    held = 0
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_index=True) as writer:
        for row, size in rows:
            group.append(row)
            held += size
            if held >= ROW_GROUP_BYTES or len(group) >= ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                group, held = [], 0
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
