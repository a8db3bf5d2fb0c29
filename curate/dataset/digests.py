"""The hashes of the rows of a dataset, and `digests.parquet`, which names the rows that changed.

The content hash leaves out the columns that are measured. The reward hash covers the columns on which rewards depend,
measured or not. The digests cover all columns.
"""

import hashlib
import json
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

from curate.problem import MEASURED_COLUMNS, REWARD_COLUMNS

DIGESTS = "digests.parquet"  # the file's name
TABLES = ("data", "rejected")  # the tables that the content hash covers, in its order
_BYTES = 8
_GROUP_ROWS = 50_000


class RowHasher:
    """SHA-256 hashes of the rows in their order, and a digest of each whole row."""

    def __init__(self) -> None:
        self._content = hashlib.sha256()
        self._reward = hashlib.sha256()
        self._digests = bytearray()

    def add(self, row: dict[str, Any]) -> dict[str, Any]:
        """Add a row of `data` to both hashes and return it."""
        self._reward.update(_json(row, row.keys() & REWARD_COLUMNS) + b"\n")
        return self.add_rejected(row)

    def add_rejected(self, row: dict[str, Any]) -> dict[str, Any]:
        """Add a row of `rejected`, on which no reward depends, to the content hash and return it."""
        content = {name: value for name, value in row.items() if name not in MEASURED_COLUMNS}
        line = json.dumps(content, sort_keys=True).encode() + b"\n"
        self._content.update(line)
        digest = hashlib.blake2b(line, digest_size=_BYTES)
        digest.update(_json(row, row.keys() & MEASURED_COLUMNS))
        self._digests += digest.digest()
        return row

    @property
    def content_hash(self) -> str:
        return self._content.hexdigest()

    @property
    def reward_hash(self) -> str:
        return self._reward.hexdigest()

    @property
    def digests(self) -> list[str]:
        """The digests of all rows that were added, in order, as hexadecimal numbers."""
        text = self._digests.hex()
        return [text[place : place + 2 * _BYTES] for place in range(0, len(text), 2 * _BYTES)]


def write_digests(hasher: RowHasher, folder: Path) -> None:
    """Write the digests of a dataset into its folder.

    hasher: has the rows of `data/` and then those of `rejected/`, in the order of their files
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    digests = iter(hasher.digests)
    schema = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("table", "id", "digest")])
    with pq.ParquetWriter(folder / DIGESTS, schema, compression="zstd") as writer:
        for table in TABLES:
            for ids in _ids(folder / table):
                columns = [[table] * len(ids), ids, [next(digests) for _ in ids]]
                writer.write_table(pa.table([pa.array(column, pa.string()) for column in columns], schema=schema))


def _json(row: dict[str, Any], names: Set[str]) -> bytes:
    """Return some columns of a row as JSON. As in a Parquet file, a number of seconds is never an integer."""
    values = {name: float(row[name]) if type(row[name]) is int else row[name] for name in names}
    return json.dumps(values, sort_keys=True).encode()


def _ids(folder: Path) -> Iterator[list[str]]:
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_GROUP_ROWS, columns=["id"]):
                yield batch.column(0).to_pylist()
