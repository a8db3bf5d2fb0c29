"""Compares as Python's == does, for the calls of assertion suites.

Values: types count as they do in Python: (1,) is not [1], 1 is 1.0 and True, {1} is frozenset({1}), b"a" is not "a",
and the order of a dict or a set does not count. A value of a subclass is compared as one of its base (a namedtuple as
a tuple, a Counter as a dict), as a Fraction or Decimal is with other numbers; any other object equals nothing.

One departure: NaN never equals NaN. For Python, two lists are equal if they hold the same NaN object, but here no two
values share objects; and a test that writes `== float("nan")` makes a new object, too.

Text: as in `exact`. A suite whose programs print cannot have this checker (see judge).
"""

from typing import Any

from sandbox.checkers import _python_values, exact


def same_output(printed: str, expected: str) -> bool:
    return exact.same_output(printed, expected)


def same_value(returned: Any, expected: Any) -> bool:
    try:
        return _python_values.canonical_text(returned) == _python_values.canonical_text(expected)
    except _python_values.NeverEqual:
        return False
