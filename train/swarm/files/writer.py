"""Write the file that answers a lease."""

from collections.abc import Sequence
from pathlib import Path

from train.swarm.files.parquet import ENGINE, LEASE, NODE, schema, write_table
from train.swarm.files.rows import FINISH_REASONS, RolloutRow
from train.swarm.messages import SwarmLease


def write_rollout_file(path: Path, rows: Sequence[RolloutRow], *, node: bytes, lease: SwarmLease, engine: str) -> None:
    """Write all answers to a lease, in the order of their numbers. The file is complete if it is there.

    The same answers give the same bytes, so a node that has been killed may write and send them again.

    node    public key of the node
    engine  as in `Join`

    Raises OSError if the disk is full.
    """
    import pyarrow as pa

    columns = {
        "lease": [lease.id] * len(rows),
        "group": [lease.lease.group] * len(rows),
        "number": [row.sample_index for row in rows],
        "version": [row.version for row in rows],
        "prompt_ids": [row.prompt_ids for row in rows],
        "token_ids": [row.token_ids for row in rows],
        "logprobs": [row.logprobs for row in rows],
        "finish": [FINISH_REASONS.index(row.finish_reason) for row in rows],
        "proofs": [row.commitments for row in rows],
        "seed": [row.seed for row in rows],
    }
    facts = {NODE: node.hex().encode(), LEASE: lease.id.hex().encode(), ENGINE: engine.encode()}
    part = path.with_name(path.name + ".part")
    write_table(pa.table(columns, schema=schema()), part, facts)
    part.replace(path)
