"""Polynomials over the field of integers modulo PRIME, for many sets of points at once.

Letters in names are shapes: C sets of points, K points of each.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

PRIME = 65497  # the largest prime below 2^16 that TOPLOC uses, so that a coefficient fits into two bytes
Int64Array = NDArray[np.int64]


def interpolate(x_CK: Int64Array, y_CK: Int64Array) -> Int64Array:
    """Return the coefficients of the polynomials of degree < K through the points, the constant term first.

    x_CK must be different within each set. Newton's divided differences, then Horner's scheme: 3 K^2 operations a set.
    """
    n_points = x_CK.shape[1]
    divided_CK = y_CK % PRIME
    for order in range(1, n_points):
        rise = divided_CK[:, order:] - divided_CK[:, order - 1 : -1]
        run = x_CK[:, order:] - x_CK[:, :-order]
        divided_CK[:, order:] = rise % PRIME * _inverses()[run % PRIME] % PRIME
    coefficients_CK = np.zeros_like(divided_CK)
    for place in reversed(range(n_points)):
        shifted_CK = np.zeros_like(coefficients_CK)
        shifted_CK[:, 1:] = coefficients_CK[:, :-1]
        coefficients_CK = (shifted_CK - x_CK[:, place : place + 1] * coefficients_CK) % PRIME
        coefficients_CK[:, 0] = (coefficients_CK[:, 0] + divided_CK[:, place]) % PRIME
    return coefficients_CK


def evaluate(coefficients_CK: Int64Array, x_CJ: Int64Array) -> Int64Array:
    """Return the values of each polynomial at its J places."""
    values_CJ = np.zeros_like(x_CJ)
    for place in reversed(range(coefficients_CK.shape[1])):
        values_CJ = (values_CJ * x_CJ + coefficients_CK[:, place : place + 1]) % PRIME
    return values_CJ


@cache
def _inverses() -> Int64Array:
    """Return the inverse of each number; that of 0, which has none, is 0."""
    inverses = np.zeros(PRIME, dtype=np.int64)
    inverses[1] = 1
    numbers = np.arange(1, PRIME, dtype=np.int64)
    # Fermat: a^(p-2) is the inverse of a.
    result, power, exponent = np.ones_like(numbers), numbers.copy(), PRIME - 2
    while exponent:
        if exponent & 1:
            result = result * power % PRIME
        power = power * power % PRIME
        exponent >>= 1
    inverses[1:] = result
    return inverses
