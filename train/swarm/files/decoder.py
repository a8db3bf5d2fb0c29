"""Decode the sandboxed parser's output. Treat it as hostile input."""

import logging
from array import array

import msgspec

from train.swarm.files.parse_result import ParsedFile, ParsedRow, ParseFailure
from train.swarm.files.rows import FINISH_REASONS, RolloutFile, RolloutRow
from train.swarm.messages import SwarmLease

log = logging.getLogger(__name__)

_decoder: msgspec.msgpack.Decoder[ParsedFile | ParseFailure] = msgspec.msgpack.Decoder(ParsedFile | ParseFailure)


def decode_rollout_file(output: bytes, lease: SwarmLease) -> RolloutFile | None:
    """Return the rows of this lease, in the order of their numbers; None if that is not what was found."""
    try:
        found = _decoder.decode(output)
        if isinstance(found, ParseFailure):
            raise ValueError(found.reason)
        return _file(found, lease)
    except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        log.info("a rollout file is refused: %.500r", error)
        return None


def _file(found: ParsedFile, lease: SwarmLease) -> RolloutFile:
    if found.lease != lease.id:
        raise ValueError("it answers another lease")
    if len(found.rows) != len(lease.lease.seeds):
        raise ValueError("it has other rows")
    for number, row in enumerate(found.rows):
        if row.lease != lease.id or row.group != lease.lease.group or row.sample_index != number:
            raise ValueError(f"row {number} answers something else")
    return RolloutFile(tuple(map(_row, found.rows)), found.node, found.lease, found.engine)


def _row(row: ParsedRow) -> RolloutRow:
    if not 0 <= row.finish_code < len(FINISH_REASONS):
        raise ValueError(f"{row.finish_code} is no way to finish")
    return RolloutRow(
        row.sample_index, row.version, row.seed, tuple(array("I", row.prompt_ids)), tuple(array("I", row.token_ids)),
        tuple(array("f", row.logprobs)), FINISH_REASONS[row.finish_code], row.commitments,
    )  # fmt: skip
