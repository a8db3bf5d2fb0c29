"""The verdict on a file: pure, given what the verifier computes. Cheap checks come first.

By now it is known that the file answers the lease (train/swarm/files/validation.py). What is checked here, in this
order:

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

from collections.abc import Collection, Iterable
from dataclasses import asdict, replace

from train.asynchronous.messages import Lease, pack_logprobs, pack_tokens
from train.sampling.commitment import Int64Array, MalformedCommitment, decode_commitments
from train.swarm.files.rows import RolloutFile, RolloutRow
from train.swarm.messages import SwarmLease, VerificationResult, VerifiedCompletion
from train.swarm.settings import SwarmSettings, Thresholds
from train.swarm.verdict import ACCEPTED, LeaseVerdict
from train.swarm.verification.distances import Distances, measure_distances, pool_distances
from train.swarm.verification.recomputation import Recomputation
from train.swarm.verification.threshold_checks import completion_violations, file_violations


def verdict_on_file(
    file: RolloutFile,
    lease: SwarmLease,
    recomputations: Iterable[Recomputation],
    thresholds: Thresholds,
    settings: SwarmSettings,
    *,
    ends: Collection[int],
) -> VerificationResult:
    """Return the verdict on a file that answers its lease.

    recomputations  one for each answer, in their order; they are only asked for once the cheap checks have passed
    ends            ids of the tokens that end an answer

    Nothing in the file makes this raise anything.
    """
    if file.is_refused:
        return VerificationResult(ACCEPTED, tuple(VerifiedCompletion(b"", b"", "refused") for _ in file.rows))
    try:
        commitments = [decode_commitments(row.commitments, len(row.token_ids)) for row in file.rows]
    except MalformedCommitment:
        return VerificationResult(LeaseVerdict("hard", "malformed"))
    if not all(_ends_well(row, lease.lease, settings, ends) for row in file.rows):
        return VerificationResult(LeaseVerdict("soft", "termination"))
    return _compared(file, lease.lease, commitments, recomputations, thresholds, settings, ends)


def _ends_well(row: RolloutRow, lease: Lease, settings: SwarmSettings, ends: Collection[int]) -> bool:
    if any(token in ends for token in row.token_ids[:-1]):
        return False
    budget = min(lease.sampling_params.max_tokens, settings.engine.context_tokens - len(lease.prompt))
    return row.token_ids[-1] in ends or len(row.token_ids) == budget


def _compared(
    file: RolloutFile,
    lease: Lease,
    commitments: list[Int64Array],
    recomputations: Iterable[Recomputation],
    thresholds: Thresholds,
    settings: SwarmSettings,
    ends: Collection[int],
) -> VerificationResult:
    faults: list[LeaseVerdict] = []
    measured: list[Distances] = []
    answers: list[VerifiedCompletion] = []
    for row, committed, recomputation in zip(file.rows, commitments, recomputations, strict=True):
        if not recomputation.is_finite:
            return VerificationResult(LeaseVerdict("unknown", "crashed"), figures=_figures(measured))
        has_end = row.token_ids[-1] in ends
        found = measure_distances(committed, row.logprobs, recomputation)
        measured.append(found if has_end else replace(found, end_probability=1.0))
        answers.append(_believed(row, recomputation, has_end=has_end))
        faults += completion_violations(found, thresholds, check_seeds=settings.check_seeds)
        if any(fault.outcome == "hard" for fault in faults):
            break
    else:
        faults += file_violations(pool_distances(measured), thresholds, check_seeds=settings.check_seeds)
    if faults:
        first = min(faults, key=lambda fault: fault.outcome != "hard")  # of equal ones, the first
        return VerificationResult(first, figures=_figures(measured))
    return VerificationResult(ACCEPTED, tuple(answers), _figures(measured))


def _believed(row: RolloutRow, recomputation: Recomputation, *, has_end: bool) -> VerifiedCompletion:
    logprobs = [min(float(logprob), 0.0) for logprob in recomputation.logprobs]  # sums round
    return VerifiedCompletion(pack_tokens(row.token_ids), pack_logprobs(logprobs), "stop" if has_end else "length")


def _figures(measured: list[Distances]) -> dict[str, float]:
    """Return the distances of the answers that were compared."""
    if not measured:
        return {}
    together = pool_distances(measured)
    figures = asdict(together)
    figures["mismatches_mean"] = figures.pop("exponent_mismatches_mean")
    return {**figures, "replayed_share": 1 - together.token_mismatches / together.n_tokens}
