"""Comparison of all numbers within 1e-6, in any notation: DMOJ's `floats` (judge-server at 3ea44ac), ASCII only.

Text: lines and tokens as in `tokens` (unlike DMOJ, a blank line inside counts). Two tokens are the same if their texts
are equal, or if both are finite ASCII numbers within 1e-6, absolute or relative to the expected one. This includes
integers: `5` is `5.0`, and 1000000000 is 1000000001. For exact integers, use `tokens`.

Values: tuples are lists at any depth, a bool is not a number, an object's keys are strings; numbers are the same
if they are equal, or if both fit a double and are within the same 1e-6. NaN and sets equal nothing.
"""

from typing import Any

from sandbox.checkers import _numbers, _text, _values


def same_output(printed: str, expected: str) -> bool:
    return _text.same_tokens(printed, expected, _same_token)


def same_value(returned: Any, expected: Any) -> bool:
    return _values.same_structure(returned, expected, same_number=_same_number)


def _same_token(printed: str, expected: str) -> bool:
    return printed == expected or _numbers.are_tokens_close(printed, expected)


def _same_number(returned: int | float, expected: int | float) -> bool:
    return returned == expected or _numbers.is_close(returned, expected)
