"""Confidence intervals of estimates that have no formula for their error.

The sets that might have been evaluated are imitated by sets drawn with replacement from the one that was (Efron 1979).
The interval that holds 95% of the estimates for such sets is too narrow if there are few items, as the usual interval
of a mean would be with 1.96 in place of Student's t. So the interval holds a little more of them, by the expanded
percentiles of Hesterberg (2015, arXiv:1411.5279).
"""

import random
from collections.abc import Callable, Sequence
from math import sqrt
from statistics import NormalDist
from typing import TypeVar

from train.evaluation.statistics.student_t import two_sided_quantile

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
