"""Write nested rows as a Parquet file, one row group at a time."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from curate.dataset.writer import ROW_GROUP_BYTES, ROW_GROUP_ROWS

if TYPE_CHECKING:
    import pyarrow as pa


def conversation_type() -> "pa.DataType":
    """Return the type of a column of conversations that datasets and trainers use."""
    import pyarrow as pa

    return pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))


def write_parquet(rows: Iterable[tuple[Mapping[str, object], int]], schema: "pa.Schema", path: Path) -> None:
    """Write rows, each given with its approximate size in bytes. At most one row group is held in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    group: list[Mapping[str, object]] = []
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
