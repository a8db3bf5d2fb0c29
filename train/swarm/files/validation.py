"""Does a file answer its lease? Checked without a model, before anything is computed."""

from math import isfinite

from train.asynchronous.messages import Lease
from train.swarm.files.rows import RolloutFile, RolloutRow
from train.swarm.settings import SwarmSettings
from train.swarm.verdict import LeaseVerdict, Outcome, Reason

_MAX_LOGPROB = 1e-3  # engines round
_COPIED_TOKENS = 64  # answers that are equal so far may still be two


def validate(file: RolloutFile, lease: Lease, settings: SwarmSettings) -> LeaseVerdict | None:
    """Return what is wrong with the file, or None."""
    for row, seed in zip(file.rows, lease.seeds, strict=True):
        if found := _fault_of(row, seed, lease, settings):
            return LeaseVerdict(*found)
    # With seeds that are replayed, equal answers are what the model says: a model that knows an answer repeats it.
    if not settings.check_seeds and _has_copies(file.rows):
        return LeaseVerdict("soft", "copies")
    return None


def _fault_of(row: RolloutRow, seed: int, lease: Lease, settings: SwarmSettings) -> tuple[Outcome, Reason] | None:
    if row.prompt_ids != lease.prompt:
        return "hard", "prompt"
    if row.seed != seed:
        return "hard", "seeds"
    if row.version != lease.version:
        return "soft", "version"  # a node that took new weights too early is careless
    if row.token_ids and max(row.token_ids) >= settings.vocab_size:
        return "hard", "tokens"
    if not _is_long_enough(row, lease, settings):
        return "hard", "length"
    if not all(isfinite(logprob) and logprob <= _MAX_LOGPROB for logprob in row.logprobs):
        return "soft", "logprobs"  # a broken device does this, too
    return None


def _is_long_enough(row: RolloutRow, lease: Lease, settings: SwarmSettings) -> bool:
    budget = settings.engine.context_tokens - len(lease.prompt)
    if budget <= 0 or row.finish_reason == "refused":
        return budget <= 0 and row.finish_reason == "refused" and not (row.token_ids or row.logprobs or row.commitments)
    return 1 <= len(row.token_ids) <= min(lease.sampling_params.max_tokens, budget) and len(row.logprobs) == len(
        row.token_ids
    )


def _has_copies(rows: tuple[RolloutRow, ...]) -> bool:
    long = [row.token_ids for row in rows if len(row.token_ids) > _COPIED_TOKENS]
    return len(set(long)) < len(long)
