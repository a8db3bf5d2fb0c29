"""Permutation test of paired differences: if two models are equally good, each difference might as well have the
opposite sign.

p is the share of all choices of signs for which the sum is at least as far from zero as the sum that was observed.
Differences of shares are multiples of a fraction, so they are counted as integers, and ties are exact. All choices
are counted by the sums that they lead to, of which there are few. If there are too many sums, as with many different
numbers of samples, 10,000 random choices stand for all.
"""

import random
from collections.abc import Sequence
from fractions import Fraction
from math import lcm

_N_RESAMPLES = 10_000
_ALWAYS_EXACT = 20  # differences
_MAX_STEPS = 4_000_000  # about a second of counting


def sign_flip_p(differences: Sequence[Fraction], *, seed: int = 0) -> float:
    """Return the two-sided p-value of the hypothesis that the sign of each difference is arbitrary.

    seed: for the random choices of signs, where they are needed; the result is the same for the same seed
    The result is exact for up to 20 differences that are not zero, and for as many as usual evaluations have.
    """
    unit = lcm(*(difference.denominator for difference in differences))
    sizes = [abs(int(difference * unit)) for difference in differences if difference]
    observed = abs(int(sum(differences, Fraction(0)) * unit))
    if len(sizes) <= _ALWAYS_EXACT or len(sizes) * (sum(sizes) + 1) <= _MAX_STEPS:
        return _exact(sizes, observed)
    return _drawn(sizes, observed, random.Random(seed))


def _exact(sizes: Sequence[int], observed: int) -> float:
    ways = {0: 1}  # for each sum, the number of choices of signs that lead to it
    for size in sizes:
        longer: dict[int, int] = {}
        for total, n in ways.items():
            longer[total + size] = longer.get(total + size, 0) + n
            longer[total - size] = longer.get(total - size, 0) + n
        ways = longer
    return sum(n for total, n in ways.items() if abs(total) >= observed) / (1 << len(sizes))


def _drawn(sizes: Sequence[int], observed: int, rng: random.Random) -> float:
    """Return an estimate that is never zero: the observed signs count as one of the choices."""
    total = sum(sizes)
    n_as_far = 0
    for _ in range(_N_RESAMPLES):
        signs = rng.getrandbits(len(sizes))
        negative = sum(size for place, size in enumerate(sizes) if signs >> place & 1)
        n_as_far += abs(total - 2 * negative) >= observed
    return (n_as_far + 1) / (_N_RESAMPLES + 1)
