"""The verdict on a lease, as a pure function of its completions and the verifier's recomputation.

train/swarm/lease_file.py has checked the file against its lease. The checks here, in order; the first two precede the
recomputation:

    malformed      commitments have the right length and are field elements
    termination    each completion ends at an end token or the length limit
    commitments    hidden states match the model, with this prompt and these tokens
    replay         tokens match the tokens that the seeds reproduce
    unlikely       instead of the replay, where seeds cannot be replayed: not too many unlikely tokens
    probabilities  log-probabilities match the model
    termination    the end token had a minimum probability

Commitments and replay are judged for each completion, and for the lease over all of its tokens. With a replay, the
noise shows whether an end token was sampled, whatever its probability.

The verdict is the first hard fault, otherwise the first soft one. Without faults, the tokens are accepted, with the
verifier's log-probabilities. A lease of less than one chunk gets no hard verdict: a single token would decide.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import log

import numpy as np
from numpy.typing import NDArray

from train.asynchronous.messages import ACCEPTED, Lease, LeaseVerdict, Reason, SampleResult, pack_logprobs, pack_tokens
from train.sampling.commitment import (
    CHUNK_TOKENS,
    Int64Array,
    MalformedCommitment,
    compute_commitment_distances,
    decode_commitments,
)
from train.sampling.protocol import SampledCompletion
from train.swarm.messages import VerificationResult
from train.swarm.settings import SwarmSettings
from train.swarm.verification.thresholds import FALSE_REJECT_RATE, N_THRESHOLDS, Thresholds
from train.swarm.verification.verifier_model import Recomputation

FloatArray = NDArray[np.float64]

_UNLIKELY_PROBABILITY = 0.01  # probability below which a token counts as unlikely
_MAX_MANTISSA_MEAN = 128.0  # substitute if no exponent is equal: more than any mantissa
_BAN_SEVERITY = 3.0  # honest leases exceed it with the cube of the probability of severity 1


@dataclass(frozen=True, slots=True)
class Distances:
    """The distances of one or several completions: a value for each unit, by the name of its threshold.

    Commitments of partial chunks are skipped: their largest values include small ones, which honest rounding changes as
    much as cheating would.
    """

    exponent_mismatches: FloatArray
    mantissa_differences: FloatArray
    seed_mismatches: FloatArray
    margins: FloatArray
    logprob_errors: FloatArray
    unlikely_tokens: FloatArray


def measure_distances(commitments: Int64Array, logprobs: Sequence[float], recomputation: Recomputation) -> Distances:
    """Measure the distances between a completion, as committed by a node, and its recomputation."""
    n_whole = len(recomputation.logprobs) // CHUNK_TOKENS
    whole = compute_commitment_distances(commitments, recomputation.hidden_TH)[:n_whole]
    own, margins = recomputation.logprobs.astype(np.float64), recomputation.margins.astype(np.float64)
    return Distances(
        exponent_mismatches=np.array([chunk.exponent_mismatches for chunk in whole], dtype=np.float64),
        mantissa_differences=np.array(
            [min(chunk.mantissa_mean, _MAX_MANTISSA_MEAN) for chunk in whole], dtype=np.float64
        ),
        seed_mismatches=(margins > 0).astype(np.float64),
        margins=margins,
        logprob_errors=np.abs(own - np.asarray(logprobs, dtype=np.float64)),
        unlikely_tokens=(own < log(_UNLIKELY_PROBABILITY)).astype(np.float64),
    )


def pool_distances(completions: Sequence[Distances]) -> Distances:
    """Concatenate the distances of completions."""
    return Distances(
        *(np.concatenate([getattr(completion, each.name) for completion in completions]) for each in fields(Distances))
    )


# Reason of a rejection by each distance, in the order of the checks.
_REASONS: dict[str, Reason] = {
    "exponent_mismatches": "commitments",
    "mantissa_differences": "commitments",
    "seed_mismatches": "replay",
    "margins": "replay",
    "unlikely_tokens": "unlikely",
    "logprob_errors": "probabilities",
}
_JUDGED_ALONE = frozenset({"commitments", "replay"})  # also for each completion; the others only for the lease
# Engine options change log-probabilities, and a replay is stronger evidence.
_NEVER_HARD = frozenset({"unlikely", "probabilities"})


def find_violations(
    completions: Sequence[Distances], thresholds: Thresholds, *, check_seeds: bool = True
) -> Iterator[LeaseVerdict]:
    """Yield verdicts for exceeded thresholds: first for single completions, then for the whole lease.

    check_seeds: whether the engine samples with counter-based noise
    """
    lease = pool_distances(completions)
    may_ban = len(lease.margins) >= CHUNK_TOKENS
    # The limits of the thresholds use the other half of the rate.
    log_odds = log(2 * N_THRESHOLDS * (len(completions) + 1) / FALSE_REJECT_RATE)
    for distances in (*completions, lease):
        for name, reason in _REASONS.items():
            is_judged = reason in _JUDGED_ALONE or distances is lease
            if not is_judged or reason == ("unlikely" if check_seeds else "replay"):
                continue
            severity = getattr(thresholds, name).severity(getattr(distances, name), log_odds)
            if severity > 1:
                is_hard = severity > _BAN_SEVERITY and may_ban and reason not in _NEVER_HARD
                yield LeaseVerdict("hard" if is_hard else "soft", reason)


def judge_completions(
    completions: Sequence[SampledCompletion],
    lease: Lease,
    recomputations: Iterable[Recomputation],
    thresholds: Thresholds,
    settings: SwarmSettings,
    *,
    end_token_ids: Collection[int],
) -> VerificationResult:
    """Return the verdict on a lease, from the completions that `read_lease_file` returns.

    recomputations  one for each completion, in order; consumed only after the first two checks passed
    end_token_ids   ids of tokens that end a completion

    No content of completions raises an exception.
    """
    if not completions:
        refusals = (
            SampleResult(lease.group, number, lease.attempt, b"", b"", (), "refused")
            for number in range(len(lease.seeds))
        )
        return VerificationResult(ACCEPTED, tuple(refusals))
    try:
        commitments = [
            decode_commitments(completion.commitments, len(completion.token_ids)) for completion in completions
        ]
    except MalformedCommitment:
        return VerificationResult(LeaseVerdict("hard", "malformed"))
    if not all(_is_terminated(completion.token_ids, lease, settings, end_token_ids) for completion in completions):
        return VerificationResult(LeaseVerdict("soft", "termination"))
    recomputed = list(recomputations)
    if not all(view.is_finite for view in recomputed):
        return VerificationResult(LeaseVerdict("unknown", "crashed"))
    distances = [
        measure_distances(committed, completion.logprobs, view)
        for committed, completion, view in zip(commitments, completions, recomputed, strict=True)
    ]
    faults = [*find_violations(distances, thresholds, check_seeds=settings.check_seeds)]
    has_end = [completion.token_ids[-1] in end_token_ids for completion in completions]
    # With a replay, the noise shows whether the end token was sampled, however unlikely.
    if not settings.check_seeds and any(
        is_end and np.exp(view.logprobs[-1]) < thresholds.end_probability
        for is_end, view in zip(has_end, recomputed, strict=True)
    ):
        faults.append(LeaseVerdict("soft", "termination"))
    figures = _summarize_distances(pool_distances(distances))
    if faults:
        first = min(faults, key=lambda fault: fault.outcome != "hard")  # min returns the first of equal ones
        return VerificationResult(first, figures=figures)
    verified = (
        _create_verified_result(lease, number, *each)
        for number, each in enumerate(zip(completions, recomputed, has_end, strict=True))
    )
    return VerificationResult(ACCEPTED, tuple(verified), figures)


def _is_terminated(
    token_ids: Sequence[int], lease: Lease, settings: SwarmSettings, end_token_ids: Collection[int]
) -> bool:
    if any(token in end_token_ids for token in token_ids[:-1]):
        return False
    budget = min(lease.sampling_params.max_tokens, settings.engine.context_tokens - len(lease.prompt))
    return token_ids[-1] in end_token_ids or len(token_ids) == budget


def _create_verified_result(
    lease: Lease, number: int, completion: SampledCompletion, view: Recomputation, has_end: bool
) -> SampleResult:
    logprobs = [min(float(logprob), 0.0) for logprob in view.logprobs]  # rounding can make sums positive
    return SampleResult(
        lease.group, number, lease.attempt, pack_tokens(completion.token_ids), pack_logprobs(logprobs),
        ((lease.version, 0, len(logprobs)),), "stop" if has_end else "length",
    )  # fmt: skip


def _summarize_distances(lease: Distances) -> dict[str, float]:
    """Return the mean and the maximum of each distance of a lease."""
    figures = {"n_tokens": float(len(lease.margins))}
    for name in _REASONS:
        if len(values := getattr(lease, name)):
            figures |= {name: float(values.mean()), f"{name}_max": float(values.max())}
    return figures
