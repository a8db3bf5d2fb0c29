"""The verdict on a file: pure, given what the verifier computes. Cheap checks come first.

By now it is known that the file answers the lease (train/swarm/lease_file.py). What is checked here, in this order:

    malformed      commitments have the right length and are numbers of the field: before anything is computed
    termination    each answer ends where an answer may end: before anything is computed
    commitments    hidden states are those of the model, with this prompt and these tokens
    replay         tokens are those that the seeds give
    unlikely       instead of the replay, where it cannot be had: not too many unlikely tokens
    probabilities  log-probabilities are those of the model
    termination    the end of the text had a chance

Commitments and replay are judged for each answer and for the whole file. With a replay, whether an end was drawn is
known from the noise, and its probability does not matter.

One hard fault decides about the file at once; else the first soft one does. Only if there is none are the tokens
believed, with the verifier's log-probabilities.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Literal

from train.asynchronous.messages import ACCEPTED, Lease, LeaseVerdict, pack_logprobs, pack_tokens
from train.sampling.commitment import Int64Array, MalformedCommitment, decode_commitments
from train.sampling.protocol import SampledCompletion
from train.swarm.messages import VerificationResult, VerifiedCompletion
from train.swarm.settings import SwarmSettings, Thresholds
from train.swarm.verification.distances import Distances, Recomputation, measure_distances, pool_distances
from train.swarm.verification.threshold_checks import completion_violations, file_violations


def verdict_on_completions(
    completions: Sequence[SampledCompletion],
    lease: Lease,
    recomputations: Iterable[Recomputation],
    thresholds: Thresholds,
    settings: SwarmSettings,
    *,
    ends: Collection[int],
) -> VerificationResult:
    """Return the verdict on the completions of a lease, as `read_lease_file` returns them.

    recomputations  one for each completion, in their order; they are only asked for once the cheap checks have passed
    ends            ids of the tokens that end a completion

    Nothing in the completions makes this raise anything.
    """
    if not completions:
        return VerificationResult(ACCEPTED, tuple(VerifiedCompletion(b"", b"", "refused") for _ in lease.seeds))
    try:
        commitments = [decode_commitments(one.commitments, len(one.token_ids)) for one in completions]
    except MalformedCommitment:
        return VerificationResult(LeaseVerdict("hard", "malformed"))
    if not all(_ends_well(one.token_ids, lease, settings, ends) for one in completions):
        return VerificationResult(LeaseVerdict("soft", "termination"))
    return _compared(completions, commitments, recomputations, thresholds, settings, ends)


def _ends_well(token_ids: Sequence[int], lease: Lease, settings: SwarmSettings, ends: Collection[int]) -> bool:
    if any(token in ends for token in token_ids[:-1]):
        return False
    budget = min(lease.sampling_params.max_tokens, settings.engine.context_tokens - len(lease.prompt))
    return token_ids[-1] in ends or len(token_ids) == budget


def _compared(
    completions: Sequence[SampledCompletion],
    commitments: list[Int64Array],
    recomputations: Iterable[Recomputation],
    thresholds: Thresholds,
    settings: SwarmSettings,
    ends: Collection[int],
) -> VerificationResult:
    faults: list[LeaseVerdict] = []
    measured: list[Distances] = []
    answers: list[VerifiedCompletion] = []
    for completion, committed, recomputation in zip(completions, commitments, recomputations, strict=True):
        if not recomputation.is_finite:
            return VerificationResult(LeaseVerdict("unknown", "crashed"), figures=_figures(measured))
        has_end = completion.token_ids[-1] in ends
        found = measure_distances(committed, completion.logprobs, recomputation)
        measured.append(found if has_end else replace(found, end_probability=1.0))
        answers.append(_verified(completion, recomputation, has_end=has_end))
        faults += completion_violations(found, thresholds, check_seeds=settings.check_seeds)
        if any(fault.outcome == "hard" for fault in faults):
            break
    else:
        faults += file_violations(pool_distances(measured), thresholds, check_seeds=settings.check_seeds)
    if faults:
        first = min(faults, key=lambda fault: fault.outcome != "hard")  # of equal ones, the first
        return VerificationResult(first, figures=_figures(measured))
    return VerificationResult(ACCEPTED, tuple(answers), _figures(measured))


def _verified(completion: SampledCompletion, recomputation: Recomputation, *, has_end: bool) -> VerifiedCompletion:
    logprobs = [min(float(logprob), 0.0) for logprob in recomputation.logprobs]  # sums round
    finish_reason: Literal["stop", "length"] = "stop" if has_end else "length"
    return VerifiedCompletion(pack_tokens(completion.token_ids), pack_logprobs(logprobs), finish_reason)


def _figures(measured: list[Distances]) -> dict[str, float]:
    """Return the distances of the answers that were compared."""
    if not measured:
        return {}
    together = pool_distances(measured)
    figures = asdict(together)
    figures["mismatches_mean"] = figures.pop("exponent_mismatches_mean")
    return {**figures, "replayed_share": 1 - together.token_mismatches / together.n_tokens}
