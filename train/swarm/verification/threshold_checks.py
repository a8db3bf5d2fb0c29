"""Which distances are within the bars of a run, and what it means if they are not.

Means over a short answer vary much, so they are compared with the bars over a whole file, weighted by tokens; an answer
alone is judged by what is far beyond them, and by what one chunk or one token is enough for.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import erfc, exp, lgamma, log, log1p, sqrt

from train.asynchronous.messages import LeaseVerdict, Reason
from train.swarm.settings import SwarmSettings, Thresholds
from train.swarm.verification.distances import Distances


@lru_cache(maxsize=4096)
def max_mismatches(n_tokens: int, seed_match_share: float, sigmas: float) -> int:
    """Return the number of misses that honest answers exceed as seldom as a normal value exceeds so many sigmas.

    The tail is that of the binomial itself. With few misses it is much fatter than its normal approximation, by which
    one honest answer of some hundred would be rejected.
    """
    miss = 1 - seed_match_share
    if miss <= 0:
        return 0
    if miss >= 1:
        return n_tokens
    rare = erfc(sigmas / sqrt(2)) / 2
    below, misses = 0.0, 0
    while misses < n_tokens:
        below += exp(
            lgamma(n_tokens + 1) - lgamma(misses + 1) - lgamma(n_tokens - misses + 1)
            + misses * log(miss) + (n_tokens - misses) * log1p(-miss)
        )  # fmt: skip
        if 1 - below < rare:
            return misses
        misses += 1
    return n_tokens


def thresholds_for(settings: SwarmSettings, engine: str, verifier: str = "transformers") -> Thresholds:
    """Return the bars of a pair of engines, each as it was named, such as "vllm 0.32.0 cpu".

    A node names its engine itself, so a name that was not calibrated must not get it wider bars than those that were:
    it is judged by the narrowest. Without any bars, the usual ones count.
    """
    pair = f"{_kind(engine)}/{_kind(verifier)}"
    if found := settings.thresholds.get(pair) or settings.thresholds.get(""):
        return found
    return min(
        settings.thresholds.values(),
        key=lambda thresholds: (thresholds.max_margin, thresholds.exponent_mismatches_mean),
        default=Thresholds(),
    )


def _kind(engine: str) -> str:
    return engine.split(maxsplit=1)[0] if engine.strip() else ""


_MIN_TOKENS = 128  # of a file: means over fewer say little


def completion_violations(answer: Distances, thresholds: Thresholds, *, check_seeds: bool) -> Iterator[LeaseVerdict]:
    """Yield what one answer is rejected for, in the order of the checks.

    check_seeds  whether the engine draws with counted noise
    """
    if answer.n_committed:
        yield from _commitments(answer, thresholds)
    if check_seeds:
        yield from _misses(answer, thresholds)
        yield from _beyond("replay", answer.max_margin, thresholds.max_margin, thresholds.hard_factor)
        yield from _turns(answer, thresholds)


def _commitments(answer: Distances, thresholds: Thresholds) -> Iterator[LeaseVerdict]:
    is_far = answer.exponent_mismatches_mean > max(
        thresholds.hard_factor * thresholds.exponent_mismatches_mean, thresholds.exponent_mismatches
    )
    if is_far or answer.mantissa_mean > thresholds.hard_factor * thresholds.mantissa_mean:
        yield LeaseVerdict("hard", "commitments")
    elif answer.exponent_mismatches > thresholds.exponent_mismatches:
        yield LeaseVerdict("soft", "commitments")


def file_violations(file: Distances, thresholds: Thresholds, *, check_seeds: bool) -> Iterator[LeaseVerdict]:
    """Yield what all answers together are rejected for, in the order of the checks."""
    if file.n_committed >= _MIN_TOKENS:
        yield from _beyond(
            "commitments", file.exponent_mismatches_mean, thresholds.exponent_mismatches_mean, thresholds.hard_factor
        )
        yield from _beyond("commitments", file.mantissa_mean, thresholds.mantissa_mean, thresholds.hard_factor)
    if check_seeds:
        yield from _misses(file, thresholds)
        yield from _turns(file, thresholds)
    elif file.n_tokens >= _MIN_TOKENS and file.unlikely_share > thresholds.unlikely_share:
        yield LeaseVerdict("soft", "unlikely")
    if file.logprob_error > thresholds.logprob_error:
        yield LeaseVerdict("soft", "probabilities")  # they are never used, and options of an engine change them
    # With a replay, the noise says whether the end was drawn, however unlikely it was.
    if not check_seeds and file.end_probability < thresholds.end_probability:
        yield LeaseVerdict("soft", "termination")


def _misses(measured: Distances, thresholds: Thresholds) -> Iterator[LeaseVerdict]:
    allowed = max_mismatches(measured.n_tokens, thresholds.seed_match_share, thresholds.seed_match_sigmas)
    yield from _beyond("replay", measured.token_mismatches, max(allowed, 1), thresholds.hard_factor)


def _turns(measured: Distances, thresholds: Thresholds) -> Iterator[LeaseVerdict]:
    """Compare the margins together: rounding turns the nearest ties, and a cheat would like to turn all near ones."""
    deviation = sqrt(measured.n_tokens * thresholds.margin_square_mean)
    allowed = (
        measured.n_tokens * thresholds.margin_mean + thresholds.seed_match_sigmas * deviation + thresholds.max_margin
    )
    yield from _beyond("replay", measured.margin_sum, allowed, thresholds.hard_factor)


def _beyond(reason: Reason, distance: float, bar: float, far: float) -> Iterator[LeaseVerdict]:
    if distance > bar:
        yield LeaseVerdict("hard" if distance > far * bar else "soft", reason)
