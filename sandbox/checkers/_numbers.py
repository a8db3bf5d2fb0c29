"""The tolerance for numbers: at most 1e-6, absolute or relative to the expected one. NaN and infinities match nothing.

A number in text is plain ASCII: sign, digits with at most one point, exponent. `1_000`, `inf`, `0x10` and digits of
other scripts are not numbers. float() parses all tokens, even integers: it takes linear time, and int() rejects more
than 4,300 digits.
"""

import math
import re

TOLERANCE = 1e-6
# Possessive quantifiers: \d+\.?\d* would take quadratic time to reject "111...1x".
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


def is_close(number: int | float, expected: int | float) -> bool:
    """Return whether a number is within the tolerance; False if either is infinite or beyond the range of a double."""
    try:
        number, expected = float(number), float(expected)
    except OverflowError:  # an int beyond the range of a double
        return False
    if not (math.isfinite(number) and math.isfinite(expected)):
        return False
    return abs(number - expected) <= TOLERANCE * max(1.0, abs(expected))


def are_tokens_close(printed: str, expected: str) -> bool:
    """Return whether both tokens are numbers, and the printed one is within the tolerance."""
    if not (_NUMBER.fullmatch(expected) and _NUMBER.fullmatch(printed)):
        return False
    return is_close(float(printed), float(expected))
