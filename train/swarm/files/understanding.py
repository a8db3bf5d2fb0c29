"""What the confined process says about a file, read as if an attacker had written it."""

import logging
from array import array

import msgspec

from train.swarm.calls import SwarmLease
from train.swarm.files.found import Found, FoundRow, Unreadable
from train.swarm.files.rows import FINISHES, RolloutFile, Row

log = logging.getLogger(__name__)

_decoder: msgspec.msgpack.Decoder[Found | Unreadable] = msgspec.msgpack.Decoder(Found | Unreadable)


def understood(output: bytes, lease: SwarmLease) -> RolloutFile | None:
    """Return the rows of this lease, in the order of their numbers; None if that is not what was found."""
    try:
        found = _decoder.decode(output)
        if isinstance(found, Unreadable):
            raise ValueError(found.reason)
        return _file(found, lease)
    except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        log.info("a rollout file is refused: %.500r", error)
        return None


def _file(found: Found, lease: SwarmLease) -> RolloutFile:
    if found.lease != lease.id:
        raise ValueError("it answers another lease")
    if len(found.rows) != len(lease.lease.seeds):
        raise ValueError("it has other rows")
    for number, row in enumerate(found.rows):
        if row.lease != lease.id or row.group != lease.lease.group or row.number != number:
            raise ValueError(f"row {number} answers something else")
    return RolloutFile(tuple(map(_row, found.rows)), found.node, found.lease, found.engine)


def _row(row: FoundRow) -> Row:
    if not 0 <= row.finish < len(FINISHES):
        raise ValueError(f"{row.finish} is no way to finish")
    return Row(
        row.number, row.version, row.seed, tuple(array("I", row.prompt_ids)), tuple(array("I", row.token_ids)),
        tuple(array("f", row.logprobs)), FINISHES[row.finish], row.commitments,
    )  # fmt: skip
