"""Which distances are within the bars of a run, and what it means if they are not.

Means over a short answer vary much, so they are compared with the bars over a whole file; an answer alone is judged by
what is far beyond them, and by what one chunk or one token is enough for.
"""

from collections.abc import Iterator
from math import sqrt

from train.swarm.settings import Bars
from train.swarm.verdict import Reason, Verdict
from train.swarm.verification.measured import Measured
from train.swarm.verification.misses import allowed_misses

_LEAST_TOKENS = 128  # of a file: means over fewer say little


def answer_faults(answer: Measured, bars: Bars, *, replays: bool) -> Iterator[Verdict]:
    """Yield what one answer is rejected for, in the order of the checks.

    replays  whether the engine draws with counted noise
    """
    is_far = answer.mismatches_mean > max(bars.far * bars.mismatches_mean, bars.mismatches)
    if is_far or answer.mantissa_mean > bars.far * bars.mantissa_mean:
        yield Verdict("hard", "commitments")
    elif answer.mismatches > bars.mismatches:
        yield Verdict("soft", "commitments")
    if replays:
        yield from _misses(answer, bars)
        yield from _beyond("replay", answer.margin, bars.margin, bars.far)
        yield from _turns(answer, bars)


def file_faults(file: Measured, bars: Bars, *, replays: bool) -> Iterator[Verdict]:
    """Yield what all answers together are rejected for, in the order of the checks."""
    if file.n_tokens >= _LEAST_TOKENS:
        yield from _beyond("commitments", file.mismatches_mean, bars.mismatches_mean, bars.far)
        yield from _beyond("commitments", file.mantissa_mean, bars.mantissa_mean, bars.far)
    if replays:
        yield from _misses(file, bars)
        yield from _turns(file, bars)
    elif file.n_tokens >= _LEAST_TOKENS and file.unlikely_share > bars.unlikely_share:
        yield Verdict("soft", "unlikely")
    if file.logprob_error > bars.logprob_error:
        yield Verdict("soft", "probabilities")  # they are never used, and options of an engine change them
    # With a replay, the noise says whether the end was drawn, however unlikely it was.
    if not replays and file.end_probability < bars.end_probability:
        yield Verdict("soft", "termination")


def _misses(measured: Measured, bars: Bars) -> Iterator[Verdict]:
    allowed = allowed_misses(measured.n_tokens, bars.replayed_share, bars.replayed_sigmas)
    yield from _beyond("replay", measured.misses, max(allowed, 1), bars.far)


def _turns(measured: Measured, bars: Bars) -> Iterator[Verdict]:
    """Compare the margins together: rounding turns the nearest ties, and a cheat would like to turn all near ones."""
    deviation = sqrt(measured.n_tokens * bars.margin_square)
    allowed = measured.n_tokens * bars.margin_mean + bars.replayed_sigmas * deviation + bars.margin
    yield from _beyond("replay", measured.margin_sum, allowed, bars.far)


def _beyond(reason: Reason, distance: float, bar: float, far: float) -> Iterator[Verdict]:
    if distance > bar:
        yield Verdict("hard" if distance > far * bar else "soft", reason)
