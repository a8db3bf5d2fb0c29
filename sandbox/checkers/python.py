"""Comparison like Python's ==, for the calls of assertion suites.

Values: (1,) is not [1], 1 is 1.0 and True, {1} is frozenset({1}), and b"a" is not "a". The order of a dict or a set is
ignored. An instance of a subclass is compared as its base: a namedtuple as a tuple, a Counter as a dict. A Fraction or
Decimal is compared with any number; any other object equals nothing.

One departure: NaN never equals NaN. In Python, two lists are equal if they contain the same NaN object. Here values
share no objects, as in a test with `== float("nan")`.

Text: as in `exact`. Suites whose programs print their results cannot have this checker (see judge.py).
"""

from typing import Any

from sandbox.checkers import _python_values, exact


def same_output(printed: str, expected: str) -> bool:
    return exact.same_output(printed, expected)


def same_value(returned: Any, expected: Any) -> bool:
    try:
        return _python_values.format_canonical_text(returned) == _python_values.format_canonical_text(expected)
    except _python_values.NeverEqual:
        return False
