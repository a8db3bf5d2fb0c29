"""What the confined process says about a file: msgpack, after one byte that says that it was ready."""

from msgspec import Struct, field

READY_MARKER = b"\n"


class ParsedRow(Struct, frozen=True, array_like=True):
    """One row. The last three are numbers of 4 bytes each, in the order of this machine's bytes."""

    lease: bytes
    group: int
    sample_index: int = field(name="number")
    version: int
    seed: int
    finish_code: int = field(name="finish")
    commitments: bytes
    prompt_ids: bytes
    token_ids: bytes
    logprobs: bytes


class ParsedFile(Struct, frozen=True, tag=True, array_like=True):
    """All rows of a file, and its metadata."""

    node: bytes
    lease: bytes
    engine: str
    rows: tuple[ParsedRow, ...]


class ParseFailure(Struct, frozen=True, tag=True, array_like=True):
    """The file is not one that answers a lease, and why."""

    reason: str
