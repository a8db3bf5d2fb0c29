"""Read one rollout file that nobody trusts. It comes at descriptor 0; what was found goes to descriptor 1.

The first byte of the output says that this process is confined and ready. Whatever goes wrong after it is the fault of
the file.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from train.swarm.files import confinement
from train.swarm.files.parquet import COMPRESSION, ENGINE, LEASE, MAX_ENGINE_LETTERS, NODE, schema, write_table
from train.swarm.files.parse_result import READY_MARKER, ParsedFile, ParsedRow, ParseFailure

_MAX_WORDS, _MAX_PARTS = 2**16, 10_000  # in the metadata of a file: letters of a text, members of a list


class _Unfit(Exception):
    """The file is not what the lease asks for."""


def main(arguments: list[str]) -> None:
    """Parse stdin. Arguments: the number of rows that there must be, and the limit of the plain content in bytes."""
    n_rows, max_bytes = map(int, arguments)
    confinement.apply_limits(max_written_bytes=2 * max_bytes)
    reader = _Reader(n_rows, max_bytes)
    confinement.enter_seccomp()
    os.write(1, READY_MARKER)
    try:
        found: ParsedFile | ParseFailure = reader.read(_everything())
    except Exception as error:  # a hostile file can raise anything in the parser, and each of it is about the file
        found = ParseFailure(f"{type(error).__name__}: {error}"[:500])
    output = memoryview(msgspec.msgpack.encode(found))
    while output:
        output = output[os.write(1, output) :]
    os._exit(0)


def _everything() -> bytes:
    pieces = []
    while piece := os.read(0, 2**20):
        pieces.append(piece)
    return b"".join(pieces)


class _Reader:
    """Reads files that have so many rows and, in plain form, at most so many bytes."""

    def __init__(self, n_rows: int, max_bytes: int) -> None:
        import pyarrow as pa

        self._n_rows, self._max_bytes = n_rows, max_bytes
        pa.set_cpu_count(1)
        # A file of our own shows what the schema becomes in Parquet, and loads all that reading needs. What Arrow would
        # like to have besides, such as pandas, takes longer to load than a file to read; later, it cannot be loaded.
        own = pa.BufferOutputStream()
        write_table(pa.Table.from_batches([], schema()), own, {})
        opened = _open(own.getvalue().to_pybytes())
        self._schema = opened.schema
        list(_rows(_table(opened)))

    def read(self, content: bytes) -> ParsedFile:
        """Check what the file says about itself; decode its rows only then. Raises any exception at all."""
        opened = _open(content)
        node, lease, engine = self._facts(opened)
        return ParsedFile(node, lease, engine, tuple(_rows(_table(opened))))

    def _facts(self, opened: Any) -> tuple[bytes, bytes, str]:
        metadata = opened.metadata
        if metadata.num_row_groups != 1 or metadata.num_rows != self._n_rows:
            raise _Unfit(f"{metadata.num_rows} rows in {metadata.num_row_groups} groups")
        if not opened.schema.equals(self._schema):
            raise _Unfit("another schema")
        group = metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        if group.num_rows != self._n_rows or any(column.compression != COMPRESSION for column in columns):
            raise _Unfit("other rows or another compression")
        if sum(column.total_uncompressed_size for column in columns) > self._max_bytes:
            raise _Unfit("more bytes than the lease can need")
        if any(column.num_values > max(self._n_rows, self._max_bytes // 4) for column in columns):
            raise _Unfit("more values than the lease can need")
        return _named(metadata.metadata or {})


def _open(content: bytes) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        pa.BufferReader(content),
        pre_buffer=False,
        thrift_string_size_limit=_MAX_WORDS,
        thrift_container_size_limit=_MAX_PARTS,
        page_checksum_verification=True,
    )


def _table(opened: Any) -> Any:
    table = opened.read_row_group(0, use_threads=False)
    table.validate(full=True)
    return table


def _named(facts: dict[bytes, bytes]) -> tuple[bytes, bytes, str]:
    if set(facts) != {NODE, LEASE, ENGINE}:
        raise _Unfit("other metadata")
    node, lease = (bytes.fromhex(facts[key].decode("ascii")) for key in (NODE, LEASE))
    return node, lease, facts[ENGINE].decode()[:MAX_ENGINE_LETTERS]


def _rows(table: Any) -> Iterator[ParsedRow]:
    plain = [
        table.column(name).to_pylist() for name in ("lease", "group", "number", "version", "seed", "finish", "proofs")
    ]
    lists = [
        [value.values.to_numpy().tobytes() for value in table.column(name)]
        for name in ("prompt_ids", "token_ids", "logprobs")
    ]
    for values in zip(*plain, *lists, strict=True):
        yield ParsedRow(*values)
