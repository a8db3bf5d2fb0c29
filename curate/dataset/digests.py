"""`digests.parquet`: a digest of each row, so that a changed dataset can be told row by row from the one written.

The content hash says that something changed; the digests say what. They also cover the columns that are measured.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from curate.dataset.reader import readable
from curate.problem import MEASURED

DIGESTS = "digests.parquet"  # the file's name
TABLES = ("data", "rejected")  # the tables that the content hash covers, in its order
_BYTES = 8
_GROUP_ROWS = 50_000


class ContentHash:
    """The SHA-256 of the rows in their order, without the columns that are measured, and a digest of each whole row."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._digests = bytearray()

    def add(self, row: dict[str, Any]) -> dict[str, Any]:
        """Add a row to the hash and return it."""
        content = {name: value for name, value in row.items() if name not in MEASURED}
        line = json.dumps(content, sort_keys=True).encode() + b"\n"
        self._hash.update(line)
        digest = hashlib.blake2b(line, digest_size=_BYTES)
        # As in a Parquet file, where a number of seconds is never an integer.
        measured = {name: float(row[name]) if type(row[name]) is int else row[name] for name in row if name in MEASURED}
        digest.update(json.dumps(measured, sort_keys=True).encode())
        self._digests += digest.digest()
        return row

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    @property
    def digests(self) -> list[str]:
        """The digests of all rows that were added, in order, as hexadecimal numbers."""
        text = self._digests.hex()
        return [text[place : place + 2 * _BYTES] for place in range(0, len(text), 2 * _BYTES)]


def write_digests(content: ContentHash, folder: Path) -> None:
    """Write the digests of a dataset into its folder.

    content: the hash to which the rows of `data/` and then those of `rejected/` were added, in the order of their files
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    digests = iter(content.digests)
    schema = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("table", "id", "digest")])
    with pq.ParquetWriter(folder / DIGESTS, schema, compression="zstd") as writer:
        for table in TABLES:
            for ids in _ids(folder / table):
                columns = [[table] * len(ids), ids, [next(digests) for _ in ids]]
                writer.write_table(pa.table([pa.array(column, pa.string()) for column in columns], schema=schema))


def read_digests(folder: Path, table: str) -> list[tuple[str, str]]:
    """Return the id and the digest of each row that was written to a table, in order.

    Raises CurateError if there is no such file, or if it is damaged.
    """
    import pyarrow.parquet as pq

    path = folder / DIGESTS
    with readable(path):
        rows = pq.read_table(path, columns=["id", "digest"], filters=[("table", "==", table)])
        return list(zip(rows.column("id").to_pylist(), rows.column("digest").to_pylist(), strict=True))


def _ids(folder: Path) -> Iterator[list[str]]:
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_GROUP_ROWS, columns=["id"]):
                yield batch.column(0).to_pylist()
