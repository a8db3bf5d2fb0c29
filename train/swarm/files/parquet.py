"""The schema of rollout files."""

from typing import Any

# Metadata of a file: keys of node and lease in hexadecimal, and the engine in words.
NODE, LEASE, ENGINE = b"node", b"lease", b"engine"
MAX_ENGINE_LETTERS = 200
COMPRESSION = "ZSTD"


def schema() -> Any:
    """Return the schema, without metadata. No value may be missing."""
    import pyarrow as pa

    def listed(kind: Any) -> Any:
        return pa.list_(pa.field("element", kind, nullable=False))

    kinds = {
        "lease": pa.binary(16),
        "group": pa.uint32(),
        "number": pa.uint16(),
        "version": pa.uint32(),
        "prompt_ids": listed(pa.uint32()),
        "token_ids": listed(pa.uint32()),
        "logprobs": listed(pa.float32()),
        "finish": pa.uint8(),
        "proofs": pa.binary(),
        "seed": pa.uint64(),
    }
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def write_table(table: Any, target: Any, metadata: dict[bytes, bytes]) -> None:
    """Write rows of this schema to a path or a stream; `metadata` are the metadata."""
    import pyarrow.parquet as pq

    # Statistics and Arrow's own form of the schema would say nothing that the file does not say, and would be more to
    # parse for a reader that does not trust it.
    with pq.ParquetWriter(
        target,
        schema(),
        compression=COMPRESSION,
        write_page_checksum=True,
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=max(1, len(table)))
        writer.add_key_value_metadata(metadata)
