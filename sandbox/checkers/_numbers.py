"""When two numbers are close: within 1e-6, absolutely or relative to the expected one; never NaN or an
infinity.

A number in text is plain ASCII: sign, digits with at most one point, exponent. `1_000`, `inf`, `0x10` and
digits of other scripts are words. float() reads tokens of any length in linear time and knows no limit of
4,300 digits; int() is not used on text at all.
"""

import math
import re

TOLERANCE = 1e-6
# Possessive: "111...1x" is refused in one pass. The obvious \d+\.?\d* needs quadratic time for it.
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


def close(number: int | float, expected: int | float) -> bool:
    """Within the tolerance. What a double cannot hold is close to nothing, itself included."""
    try:
        number, expected = float(number), float(expected)
    except OverflowError:  # an int beyond 1.8e308
        return False
    if not (math.isfinite(number) and math.isfinite(expected)):
        return False
    return abs(number - expected) <= TOLERANCE * max(1.0, abs(expected))


def close_tokens(printed: str, expected: str) -> bool:
    """The same for two tokens of text, where both are numbers."""
    if not (_NUMBER.fullmatch(expected) and _NUMBER.fullmatch(printed)):
        return False
    return close(float(printed), float(expected))
