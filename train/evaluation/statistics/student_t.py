"""Quantiles of Student's t distribution, for the means of few values.

The distribution has a closed form for whole degrees of freedom (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4), which
is inverted by bisection. So the interval of a difference needs no library beyond the standard one.
"""

from math import atan, cos, pi, sin, sqrt


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
