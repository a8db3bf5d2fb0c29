"""Parquet files that no library writes: the footer of an honest file is changed, or all of a file made by hand.

Footers and the headers of pages are Thrift in its compact form. Here, a struct is {field: (type, value)}, and a list is
(type of its members, values).
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

TRUE, FALSE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 4, 5, 6, 7, 8, 9, 12
Tree = dict[int, tuple[int, Any]]
_MAGIC = b"PAR1"
_PLAIN, _RLE, _DICTIONARY = 0, 3, 8

# Fields of the footer.
SCHEMA, NUM_ROWS, ROW_GROUPS, KEY_VALUES = 2, 3, 4, 5
COLUMNS, GROUP_BYTES, GROUP_ROWS = 1, 2, 3
COLUMN_DATA, COLUMN_VALUES, COLUMN_PLAIN_BYTES, COLUMN_BYTES, PAGE_AT, DICTIONARY_AT = 3, 5, 6, 7, 9, 11


def with_footer(content: bytes, change: Callable[[Tree], Any]) -> bytes:
    """Return the file with another footer."""
    size = int.from_bytes(content[-8:-4], "little")
    footer, _ = _read_struct(content, len(content) - 8 - size)
    change(footer)
    written = thrift(footer)
    return content[: len(content) - 8 - size] + written + struct.pack("<I", len(written)) + _MAGIC


def column_of(footer: Tree, number: int) -> Tree:
    """Return the metadata of a column, to be changed."""
    group: Tree = footer[ROW_GROUPS][1][1][0]
    column: Tree = group[COLUMNS][1][1][number][COLUMN_DATA][1]
    return column


def with_column(content: bytes, number: int, pages: bytes, *, n_values: int) -> bytes:
    """Return the file with other pages of one column, which claims to have so many values."""

    def change(footer: Tree) -> None:
        column = column_of(footer, number)
        column[COLUMN_VALUES] = I64, n_values
        column[COLUMN_PLAIN_BYTES] = column[COLUMN_BYTES] = I64, len(pages)
        column[PAGE_AT] = I64, len(content)
        column.pop(DICTIONARY_AT, None)

    size = int.from_bytes(content[-8:-4], "little") + 8
    footer = content[-size:]
    return with_footer(content + pages + footer, change)


def page(body: bytes, *, n_values: int, plain_bytes: int | None = None, encoding: int = _PLAIN) -> bytes:
    """Return a data page whose header says whatever it is told."""
    told: Tree = {1: (I32, n_values), 2: (I32, encoding), 3: (I32, _RLE), 4: (I32, _RLE)}
    return _page({1: (I32, 0), 5: (STRUCT, told)}, body, plain_bytes)


def repeated(dictionary: bytes, counts: Sequence[int]) -> bytes:
    """Return the pages of a list of numbers whose rows repeat the one number of a dictionary, each in a few bytes."""
    repetition = [run for count in counts for run in ((0, 1), (1, count - 1)) if run[1]]
    total = sum(counts)
    body = _levels(repetition) + _levels([(1, total)]) + b"\1" + _runs([(0, total)])
    entry = _page({1: (I32, 2), 7: (STRUCT, {1: (I32, 1), 2: (I32, _PLAIN)})}, dictionary)
    return entry + page(body, n_values=total, encoding=_DICTIONARY)


def _page(header: Tree, body: bytes, plain_bytes: int | None = None) -> bytes:
    packed: bytes = pa.compress(body, codec="zstd", asbytes=True)
    sizes: Tree = {2: (I32, len(body) if plain_bytes is None else plain_bytes), 3: (I32, len(packed))}
    return thrift({**header, **sizes}) + packed


def dictionary_of_zeros(n_values: int, n_bytes: int) -> bytes:
    """Return the pages of a column of texts that repeat the one text of a dictionary, which has so many zeros."""
    entry = _page(
        {1: (I32, 2), 7: (STRUCT, {1: (I32, 1), 2: (I32, _PLAIN)})}, struct.pack("<I", n_bytes) + bytes(n_bytes)
    )
    return entry + page(b"\1" + _runs([(0, n_values)]), n_values=n_values, encoding=_DICTIONARY)


def _levels(runs: Sequence[tuple[int, int]]) -> bytes:
    written = _runs(runs)
    return struct.pack("<I", len(written)) + written


def _runs(runs: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(_varint(times << 1) + bytes([value]) for value, times in runs)


def nested(depth: int) -> bytes:
    """Return a file without rows whose schema has groups within groups."""
    element: Tree = {3: (I32, 0), 4: (BINARY, b"a"), 5: (I32, 1)}
    leaf: Tree = {1: (I32, 1), 3: (I32, 0), 4: (BINARY, b"a")}
    return _file({1: (I32, 2), SCHEMA: (LIST, (STRUCT, [*[element] * depth, leaf])), NUM_ROWS: (I64, 0),
                  ROW_GROUPS: (LIST, (STRUCT, []))})  # fmt: skip


def _file(footer: Tree) -> bytes:
    written = thrift(footer)
    return _MAGIC + written + struct.pack("<I", len(written)) + _MAGIC


def thrift(tree: Tree) -> bytes:
    """Return a struct in the compact form."""
    written, before = b"", 0
    for field, (kind, value) in sorted(tree.items()):
        step = field - before
        written += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _varint(_zigzag(field))
        written += b"" if kind in (TRUE, FALSE) else _written(kind, value)
        before = field
    return written + b"\0"


def _written(kind: int, value: Any) -> bytes:
    if kind == STRUCT:
        return thrift(value)
    if kind == LIST:
        of, members = value
        short = len(members) < 15
        start = bytes([min(len(members), 15) << 4 | of]) + (b"" if short else _varint(len(members)))
        return start + b"".join(_written(of, member) for member in members)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    return struct.pack("<d", value) if kind == DOUBLE else _varint(_zigzag(value))


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _read_struct(data: Sequence[int], at: int) -> tuple[Tree, int]:
    tree: Tree = {}
    field = 0
    while kind := data[at] & 0x0F:
        step, at = data[at] >> 4, at + 1
        if step:
            field += step
        else:
            number, at = _read_varint(data, at)
            field = number >> 1
        value: Any = None
        if kind not in (TRUE, FALSE):
            value, at = _read(kind, data, at)
        tree[field] = kind, value
    return tree, at + 1


def _read(kind: int, data: Any, at: int) -> tuple[Any, int]:
    if kind == STRUCT:
        return _read_struct(data, at)
    if kind == LIST:
        of, n_members, at = data[at] & 0x0F, data[at] >> 4, at + 1
        if n_members == 15:
            n_members, at = _read_varint(data, at)
        members = []
        for _ in range(n_members):
            member, at = _read(of, data, at)
            members.append(member)
        return (of, members), at
    number, at = _read_varint(data, at)
    if kind == BINARY:
        return data[at : at + number], at + number
    return (number >> 1) ^ -(number & 1), at


def _read_varint(data: Any, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
