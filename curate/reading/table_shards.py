"""Divide a table into shards: ranges of rows that can be read without reading what is before them.

A shard begins at a row group of a Parquet file, at a record batch of an Arrow file, or at a line of a plain JSONL file.
Any other file can only be read from its beginning, and the rows before it have to be counted, so a table that has one
is a single shard.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from curate.reading.arrow_files import open_batches
from curate.reading.tables import COLUMNAR, RowPlace, TableFiles, format_of

_BLANK_BYTES = 64  # longer lines are taken for rows without looking for blanks of other alphabets


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows of a file that stay together."""

    n_rows: int
    offset: int
    line: int = 1


def divide(table: TableFiles, max_rows: int) -> list[TableFiles]:
    """Return the shards of a table, each with at least `max_rows` rows but the last, if its files can be divided.

    A shard is larger if a row group of its file is. A damaged file is not an error here, but when its rows are read.
    """
    shards: list[TableFiles] = []
    begin, n_rows, position, first_file = RowPlace(), 0, 0, 0
    for number, path in enumerate(table.files):
        units = _units(path, table.encoding, max_rows)
        if units is None:
            return [table]
        for unit in units:
            if n_rows >= max_rows:
                shards.append(replace(table, files=table.files[first_file : number + 1], begin=begin, n_rows=n_rows))
                begin, n_rows, first_file = RowPlace(position, unit.offset, unit.line), 0, number
            n_rows += unit.n_rows
            position += unit.n_rows
    return [*shards, replace(table, files=table.files[first_file:], begin=begin)]


def _units(path: Path, encoding: str, max_rows: int) -> list[_Unit] | None:
    """Return the rows of a file that stay together; None if the file cannot be divided."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ending = format_of(path)
    try:
        if ending == ".parquet":
            groups = pq.read_metadata(path)
            return [_Unit(groups.row_group(number).num_rows, number) for number in range(groups.num_row_groups)]
        if ending in COLUMNAR:
            with open_batches(path) as (_, batches):
                return [_Unit(len(batch), number) for number, batch in enumerate(batches)]
    except (pa.ArrowException, OSError):
        return None
    return list(_lines(path, max_rows)) or None if ending == ".jsonl" and not encoding else None


def _lines(path: Path, max_rows: int) -> Iterator[_Unit]:
    """Yield units of `max_rows` lines that are not blank; none if lines end in another way than usual."""
    units: list[_Unit] = []
    n_rows, offset, begin, first_line = 0, 0, 0, 1
    with path.open("rb") as file:
        if file.read(3) == b"\xef\xbb\xbf":
            return
        file.seek(0)
        for number, line in enumerate(file, start=1):
            if b"\r" in line.removesuffix(b"\r\n"):
                return
            if n_rows == max_rows:
                units.append(_Unit(n_rows, begin, first_line))
                n_rows, begin, first_line = 0, offset, number
            n_rows += bool(line.strip() if len(line) > _BLANK_BYTES else line.decode(errors="replace").strip())
            offset += len(line)
    yield from [*units, _Unit(n_rows, begin, first_line)]
