"""McNemar's exact test: do two models with one sample of each problem differ?

Only the problems count that one of them solved and the other did not. If both models are equally good, each of these
problems is as likely to be solved by the one as by the other.
"""

from dataclasses import dataclass
from math import comb


@dataclass(frozen=True, slots=True)
class McNemar:
    """The problems that only one of two models solved, and the two-sided p-value."""

    only_first: int
    only_second: int
    p: float


def mcnemar(only_first: int, only_second: int) -> McNemar:
    """Return the test of these numbers of problems."""
    n = only_first + only_second
    tail = sum(comb(n, i) for i in range(min(only_first, only_second) + 1))
    return McNemar(only_first, only_second, min(1.0, 2 * tail / 2**n))
