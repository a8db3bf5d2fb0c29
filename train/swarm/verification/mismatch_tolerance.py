"""How many tokens may differ from what the seeds give, by honest rounding alone."""

from functools import lru_cache
from math import erfc, exp, lgamma, log, log1p, sqrt


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
