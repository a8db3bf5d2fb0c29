"""Confidence intervals: of a share over problems, of any mean over problems, and of estimates without a formula.

Samples of one problem resemble each other, so the standard error is computed for clusters, one per problem
(Miller 2024, "Adding Error Bars to Evals", arXiv:2411.00640, sec. 2.2 and 3.1). The usual interval, mean +- 1.96
standard errors, has no width if all or none are solved, and is too narrow for few problems (Bowyer et al. 2025,
arXiv:2503.01747). So a solve rate gets Wilson's interval (1927) with the number of independent trials that would have
that standard error, as surveys do with clustered samples (Korn and Graubard 1998).

Means of few values need quantiles of Student's t. Its distribution has a closed form for whole degrees of freedom
(Abramowitz and Stegun 1964, 26.7.3 and 26.7.4), which is inverted by bisection.

Other estimates have a bootstrap interval (Efron 1979): sets drawn with replacement imitate those that might have been
evaluated. With few items it would be too narrow, so it has the expanded percentiles of Hesterberg (2015,
arXiv:1411.5279).
"""

import random
from collections.abc import Callable, Sequence
from math import atan, cos, nan, pi, sin, sqrt
from statistics import NormalDist, fmean
from typing import TypeVar


def central_probability(t: float, degrees: int) -> float:
    """Return the probability that a value of the distribution lies between -t and t."""
    angle = atan(t / sqrt(degrees))
    term, total = (cos(angle), 0.0) if degrees % 2 else (1.0, 0.0)
    for power in range(1 if degrees % 2 else 0, degrees - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * cos(angle) ** 2
    return 2 / pi * (angle + sin(angle) * total) if degrees % 2 else sin(angle) * total


def two_sided_quantile(probability: float, degrees: int) -> float:
    """Return the t for which a value lies between -t and t with this probability.

    degrees: degrees of freedom, at least 1. Raises ValueError for other degrees, or a probability that is not
    between 0 and 1.
    """
    if degrees < 1 or not 0 < probability < 1:
        raise ValueError(f"no quantile of t for a probability of {probability} and {degrees} degrees of freedom")
    low, high = 0.0, 1.0
    while central_probability(high, degrees) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if central_probability(middle, degrees) < probability else (low, middle)
    return high


_Z = NormalDist().inv_cdf(0.975)  # 95%, two-sided
_SMALL_SAMPLE = 50  # problems, below which the interval of any mean is that of Student's t


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean of values, one for each problem; nan for fewer than two problems."""
    n = len(values)
    if n < 2:
        return nan
    mean = fmean(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / (n * (n - 1)))


def interval_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% confidence interval of the mean of values of any kind, one for each problem.

    It is that of Student's t for fewer than 50 problems and of the normal distribution for more, and nan for fewer than
    two. It has no width if all values are equal.
    """
    n, mean = len(values), fmean(values) if values else nan
    quantile = nan if n < 2 else two_sided_quantile(0.95, n - 1) if n < _SMALL_SAMPLE else _Z
    half = quantile * standard_error(values)
    return mean - half, mean + half


def solve_rate_interval(counts: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the 95% confidence interval of the mean share of right samples.

    counts: the number of samples of each problem, at least one, and the number of right ones among them.
    """
    if not counts:
        return nan, nan
    return _wilson(fmean(correct / n for n, correct in counts), effective_sample_size(counts))


def effective_sample_size(counts: Sequence[tuple[int, int]]) -> float:
    """Return how many independent trials would have this standard error.

    It is about the number of problems if the samples of each problem are all alike, and at most the number of samples.
    """
    shares = [correct / n for n, correct in counts]
    centre, problems, samples = fmean(shares), len(shares), sum(n for n, _ in counts)
    if problems == 1 or centre in (0, 1):
        return problems
    squared_error = standard_error(shares) ** 2
    return min(centre * (1 - centre) / squared_error, samples) if squared_error else samples


def _wilson(share: float, n: float) -> tuple[float, float]:
    centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
    return 0.0 if share == 0 else centre - half, 1.0 if share == 1 else centre + half  # exactly, at the ends


Item = TypeVar("Item")


def bootstrap_interval(
    items: Sequence[Item], estimate: Callable[[Sequence[Item]], float], *, n_resamples: int, seed: int = 0
) -> tuple[float, float]:
    """Return the 95% confidence interval of an estimate.

    items        what could have been chosen otherwise, such as problems or contests; at least two
    n_resamples  the number of sets that are drawn

    The result is the same for the same seed.
    """
    n, rng = len(items), random.Random(seed)
    estimates = sorted(estimate(rng.choices(items, k=n)) for _ in range(n_resamples))
    outside = NormalDist().cdf(-sqrt(n / (n - 1)) * two_sided_quantile(0.95, n - 1))  # on each side
    tail = int(outside * n_resamples)
    return estimates[tail], estimates[-1 - tail]
