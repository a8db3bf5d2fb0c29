"""Comparison of tokens line by line: code_contests' OutputsMatch (at fa7a4f8) without its loopholes.

Text: CRLF is LF; blank lines at both ends are ignored, and so is the number of blanks (space, tab, \\v, \\f) between
tokens. The numbers of lines must be equal, including blank ones inside, and on each line the numbers of tokens. Two
tokens are the same if their texts are equal. An expected ASCII decimal (with a point or an exponent) also equals any
ASCII number within 1e-6, absolute or relative. So integers are compared as text: `007`, `7.0` and a full-width seven
are not `7`. Case matters. NaN and infinities match only as text.

Values: tuples are lists at any depth, a bool is not a number, an object's keys are strings ({1: x} is {"1": x}).
An expected finite float matches within the same 1e-6; an expected int or infinity requires an equal number (5.0 is 5);
NaN and sets equal nothing.
"""

import math
from typing import Any

from sandbox.checkers import _numbers, _text, _values


def same_output(printed: str, expected: str) -> bool:
    return _text.same_tokens(printed, expected, same_token)


def same_value(returned: Any, expected: Any) -> bool:
    return _values.same_structure(returned, expected, same_number=_same_number)


def same_token(printed: str, expected: str) -> bool:
    """Return whether a printed token is the same as the expected one."""
    if printed == expected:
        return True
    written_as_decimal = any(mark in expected for mark in ".eE")
    return written_as_decimal and _numbers.are_tokens_close(printed, expected)


def _same_number(returned: int | float, expected: int | float) -> bool:
    if isinstance(expected, float) and math.isfinite(expected):
        return _numbers.is_close(returned, expected)
    return returned == expected
