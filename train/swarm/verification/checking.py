"""The verdict on a file: pure, given what the verifier computes. Cheap checks come first.

By now it is known that the file answers the lease (train/swarm/files/sanity.py). What is checked here, in this order:

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

from train.asynchronous.messages import Lease
from train.asynchronous.packed import pack_logprobs, pack_tokens
from train.sampling.verifiable.commitment import Commitment, Malformed, read
from train.swarm.calls import SwarmLease, Verified, VerifiedAnswer
from train.swarm.files.rows import RolloutFile, Row
from train.swarm.settings import Bars, SwarmSettings
from train.swarm.verdict import ACCEPTED, Verdict
from train.swarm.verification.bounds import answer_faults, file_faults
from train.swarm.verification.measured import Measured, measure, pooled
from train.swarm.verification.view import View


def check(
    file: RolloutFile,
    lease: SwarmLease,
    views: Iterable[View],
    bars: Bars,
    settings: SwarmSettings,
    *,
    ends: Collection[int],
) -> Verified:
    """Return the verdict on a file that answers its lease.

    views  one for each answer, in their order; they are only asked for once the cheap checks have passed
    ends   ids of the tokens that end an answer

    Nothing in the file makes this raise anything.
    """
    if file.is_refused:
        return Verified(ACCEPTED, tuple(VerifiedAnswer(b"", b"", "refused") for _ in file.rows))
    try:
        commitments = [read(row.commitments, len(row.token_ids)) for row in file.rows]
    except Malformed:
        return Verified(Verdict("hard", "malformed"))
    if not all(_ends_well(row, lease.lease, settings, ends) for row in file.rows):
        return Verified(Verdict("soft", "termination"))
    return _compared(file, lease.lease, commitments, views, bars, settings, ends)


def _ends_well(row: Row, lease: Lease, settings: SwarmSettings, ends: Collection[int]) -> bool:
    if any(token in ends for token in row.token_ids[:-1]):
        return False
    room = min(lease.draw.max_tokens, settings.terms.context_tokens - len(lease.prompt))
    return row.token_ids[-1] in ends or len(row.token_ids) == room


def _compared(
    file: RolloutFile,
    lease: Lease,
    commitments: list[tuple[Commitment, ...]],
    views: Iterable[View],
    bars: Bars,
    settings: SwarmSettings,
    ends: Collection[int],
) -> Verified:
    faults: list[Verdict] = []
    measured: list[Measured] = []
    answers: list[VerifiedAnswer] = []
    for row, committed, view in zip(file.rows, commitments, views, strict=True):
        if not view.is_finite:
            return Verified(Verdict("unknown", "crashed"), figures=_figures(measured))
        has_end = row.token_ids[-1] in ends
        found = measure(committed, row.logprobs, view)
        measured.append(found if has_end else replace(found, end_probability=1.0))
        answers.append(_believed(row, view, has_end=has_end))
        faults += answer_faults(found, bars, replays=settings.replays)
        if any(fault.outcome == "hard" for fault in faults):
            break
    else:
        faults += file_faults(pooled(measured), bars, replays=settings.replays)
    if faults:
        first = min(faults, key=lambda fault: fault.outcome != "hard")  # of equal ones, the first
        return Verified(first, figures=_figures(measured))
    return Verified(ACCEPTED, tuple(answers), _figures(measured))


def _believed(row: Row, view: View, *, has_end: bool) -> VerifiedAnswer:
    logprobs = [min(float(logprob), 0.0) for logprob in view.logprobs]  # sums round
    return VerifiedAnswer(pack_tokens(row.token_ids), pack_logprobs(logprobs), "stop" if has_end else "length")


def _figures(measured: list[Measured]) -> dict[str, float]:
    """Return the distances of the answers that were compared."""
    if not measured:
        return {}
    together = pooled(measured)
    return {**asdict(together), "replayed_share": 1 - together.misses / together.n_tokens}
