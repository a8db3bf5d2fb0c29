"""How long answers are. Reasoning models answer in lengths that are nearly log-normal, with a heavy tail."""

import random
from dataclasses import dataclass
from math import exp
from typing import Protocol


class LengthDistribution(Protocol):
    """Says how long the next answer is, how long answers are on average, and how long the longest may be."""

    @property
    def limit(self) -> int: ...

    @property
    def mean(self) -> float: ...

    def draw(self, rng: random.Random) -> int: ...


@dataclass(frozen=True, slots=True)
class LogNormalLengths:
    """Log-normal lengths in tokens, cut off at a limit.

    median  of the lengths before they are cut off
    sigma   standard deviation of their logarithm; 0.9 puts one answer in a hundred at eight times the median
    limit   the longest length
    """

    median: float
    sigma: float
    limit: int

    @classmethod
    def with_mean(cls, mean: float, *, sigma: float = 0.9, limit: int) -> "LogNormalLengths":
        """Return lengths whose mean, after the cut, is this one. Raises ValueError if the limit does not allow it."""
        if not 1 <= mean < limit:
            raise ValueError(f"answers of at most {limit} tokens cannot have {mean:g} on average")
        low, high = 1.0, 64.0 * limit
        while high / low > 1.0001:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if cls(middle, sigma, limit).mean < mean else (low, middle)
        return cls(low, sigma, limit)

    @property
    def mean(self) -> float:
        """The mean after the cut: the expectation of min(length, limit)."""
        if self.sigma == 0:
            return min(self.median, self.limit)
        from math import log
        from statistics import NormalDist

        normal, cut = NormalDist(), (log(self.limit) - log(self.median)) / self.sigma
        whole = self.median * exp(self.sigma**2 / 2)
        return whole * normal.cdf(cut - self.sigma) + self.limit * (1 - normal.cdf(cut))

    def draw(self, rng: random.Random) -> int:
        return max(1, min(self.limit, round(self.median * exp(rng.gauss(0.0, self.sigma)))))
