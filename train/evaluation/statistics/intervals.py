"""Confidence intervals for solve rates, for mean paired differences, and for estimates without a formula.

Samples of one problem are correlated, so the standard error is clustered by problem (Miller 2024, "Adding Error Bars to
Evals", arXiv:2411.00640, sec. 2.2 and 3.1). The usual interval, 1.96 standard errors around the mean, has no
width at 0 and 1. It is too narrow for few problems (Bowyer et al. 2025, arXiv:2503.01747).

Solve rates have Agresti and Coull's interval (1998, The American Statistician 52, 119-126). Its number of trials is the
effective sample size, as in surveys (Korn and Graubard 1998, Survey Methodology 24, 193-201; Franco, Little, Louis and
Slud 2019, J. Survey Stat. Methodol. 7, 334-364). Mean differences have Bonett and Price's interval (2012, J. Educ.
Behav. Stat. 37, 479-488), which adds two problems, one in favor of each model. Fagerland, Lydersen and Laake (2014,
Stat. Med. 33, 2850-2875) recommend this interval.

Both intervals assume one sample per problem. With several samples, the variance between problems is an estimate, which
is too low if rare kinds of problems are missing. Student's t (Korn and Graubard) does not correct this bias. Instead,
both intervals add a fraction of a problem: UNSEEN_VARIANCE and UNSEEN_DIFFERENCE, the lowest round values that reach
93% coverage in benchmarks/intervals.py.

Other estimates have a bootstrap interval (Efron 1979) with the expanded percentiles of Hesterberg (2015,
arXiv:1411.5279), which correct the width for few items.
"""

import random
from collections.abc import Callable, Sequence
from math import nan, sqrt
from statistics import NormalDist, fmean
from typing import TypeVar

_Z = NormalDist().inv_cdf(0.975)  # two-sided 95% quantile of the normal distribution
UNSEEN_VARIANCE = 0.1  # for comparison: two problems, one always and one never solved, have a variance of 0.5
UNSEEN_DIFFERENCE = 0.3  # added share of a problem with a difference of 1


def compute_standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean of values of problems; nan for fewer than two problems."""
    n = len(values)
    if n < 2:
        return nan
    mean = fmean(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / (n * (n - 1)))


def compute_solve_rate_interval(counts: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the 95% confidence interval of the solve rate; nan without problems.

    counts: (number of samples, above 0; number of correct ones) of each problem
    """
    if not counts:
        return nan, nan
    n = compute_effective_sample_size(counts)
    trials = n + _Z**2
    centre = (n * fmean(correct / n for n, correct in counts) + _Z**2 / 2) / trials
    half = _Z * sqrt(centre * (1 - centre) / trials)
    return max(0.0, centre - half), min(1.0, centre + half)


def compute_effective_sample_size(counts: Sequence[tuple[int, int]]) -> float:
    """Return the number of independent trials that would have the same standard error.

    The result lies between the number of problems minus one and the number of samples.
    """
    shares = [correct / n for n, correct in counts]
    mean, problems = fmean(shares), len(shares)
    if problems == 1:
        return 1
    variance = compute_standard_error(shares) ** 2 + UNSEEN_VARIANCE / problems**2
    trials: float = mean * (1 - mean) / variance
    return max(problems - 1, min(sum(n for n, _ in counts), trials))


def compute_difference_interval(differences: Sequence[float], step: float) -> tuple[float, float]:
    """Return the 95% confidence interval of the mean paired difference between solve rates.

    differences  difference of each problem, from -1 to 1
    step         smallest effect of one sample on a difference; 1 with one sample per problem

    The differences of the two added problems are about as large as the others, and at least one step.
    """
    squares = sum(difference**2 for difference in differences)
    sizes = sum(map(abs, differences))
    unit = max(step, (squares + UNSEEN_DIFFERENCE) / (sizes + UNSEEN_DIFFERENCE))
    extended = [*differences, unit, -unit]
    centre, half = fmean(extended), _Z * compute_standard_error(extended)
    return max(-1.0, centre - half), min(1.0, centre + half)


Item = TypeVar("Item")


def compute_bootstrap_interval(
    items: Sequence[Item], estimate: Callable[[Sequence[Item]], float], *, n_resamples: int, seed: int = 0
) -> tuple[float, float]:
    """Return the 95% bootstrap interval of an estimate; the same seed gives the same interval.

    items: at least two items of a random sample, such as problems or contests
    """
    n, rng = len(items), random.Random(seed)
    estimates = sorted(estimate(rng.choices(items, k=n)) for _ in range(n_resamples))
    tail_probability = NormalDist().cdf(-sqrt(n / (n - 1)) * _approximate_t_quantile(n - 1))
    tail = int(tail_probability * n_resamples)
    return estimates[tail], estimates[-1 - tail]


def _approximate_t_quantile(degrees: int) -> float:
    """Approximate the two-sided 95% quantile of Student's t distribution (Abramowitz and Stegun 1964, 26.7.5).

    The error is at most 0.01 from 4 degrees of freedom on.
    """
    z = _Z
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + float(sum(term / degrees**power for power, term in enumerate(terms, 1)))
