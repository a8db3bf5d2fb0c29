"""Leases, and honest files that answer them."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from honest_commitments import COMMITMENT_BYTES

from train.asynchronous.messages import Lease
from train.sampling.commitment import CHUNK_TOKENS
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import SamplingParams
from train.swarm.files.rows import RolloutRow
from train.swarm.files.writer import write_rollout_file
from train.swarm.messages import SwarmLease
from train.swarm.settings import SwarmSettings

VOCABULARY, CONTEXT, MAX_TOKENS = 500, 200, 100
SETTINGS = SwarmSettings("coder", EngineSpec("coder", "model", "transformers", CONTEXT), VOCABULARY)
NODE, ENGINE = bytes(range(32)), "transformers 5.5.0"


def lease(*, n_answers: int = 3, prompt: tuple[int, ...] = (5, 7, 11)) -> SwarmLease:
    draw = SamplingParams(1.0, 1.0, MAX_TOKENS, logprobs=True, verifiable=True)
    seeds = tuple(2**62 + number for number in range(n_answers))
    return SwarmLease(bytes(range(16)), Lease(4, 0, 2, prompt, seeds, draw, 60.0))


def rows(given: SwarmLease, **changes: Any) -> list[RolloutRow]:
    """Return honest answers of random tokens; the changes are made to the last one."""
    rng, made = random.Random(0), []
    for number, its_seed in enumerate(given.lease.seeds):
        n_tokens = rng.randint(65, MAX_TOKENS)
        tokens = tuple(rng.randrange(VOCABULARY) for _ in range(n_tokens))
        logprobs = tuple(-rng.randrange(64) / 8 for _ in tokens)
        commitments = rng.randbytes(COMMITMENT_BYTES * -(-n_tokens // CHUNK_TOKENS))
        lease = given.lease
        made.append(RolloutRow(number, lease.version, its_seed, lease.prompt, tokens, logprobs, "stop", commitments))
    return [*made[:-1], replace(made[-1], **changes)]


def content(folder: Path, given: SwarmLease, written: list[RolloutRow] | None = None) -> bytes:
    path = folder / "answers.parquet"
    write_rollout_file(path, rows(given) if written is None else written, node=NODE, lease=given, engine=ENGINE)
    return path.read_bytes()
