"""The rules of LiveCodeBench, with the same verdicts as its grade_stdio and grade_call_based
(lcb_runner/evaluation/testing_util.py at 28fef95). The default.

Text: strip both, split at "\\n", strip each line. There must be equally many lines. Two lines are the same if they are
equal as text, or if all tokens (str.split) of both parse as Decimal and are equally many. Each pair must then be equal,
without tolerance. So `6.0` = `6` = `+06`, `1e3` = `1_000` = full-width `１０００`, and `Infinity` = `inf`. On a line of
numbers only, blanks do not count; but `a  b` is not `a b`, `0.30000000000000004` is not `0.3`, and a blank line inside
counts. NaN equals NaN only as text on a line that is equal as text.

Values: a tuple at the top becomes a list, then Python's ==: True == 1 == 1.0, a nested tuple is not a list,
the key 1 is not "1". Expected values are JSON, so sets, and tuples as keys, equal nothing, although == would compare
them with others of their kind.

One departure: NaN never equals NaN, while == considers two lists with the same NaN object equal. In LiveCodeBench the
program runs in the grader's process and can return json's own NaN; here no object is shared.
"""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from sandbox.checkers import _text, _values

_BLANK = re.compile(r"\s")  # as for str.split()
_PYTHON_KINDS: Mapping[type, str] = {**_values.JSON_KINDS, bool: "number", tuple: "tuple"}


def same_output(printed: str, expected: str) -> bool:
    if printed == expected:
        return True
    if _text.is_much_longer(printed, expected):
        return False
    printed, expected = printed.strip(), expected.strip()
    if printed.count("\n") != expected.count("\n"):  # cheap: a hostile program may print millions of lines
        return False
    return all(
        line.strip() == expected_line.strip() or _text.same_line(line, expected_line, _same_decimal, str.split, _BLANK)
        for line, expected_line in zip(_text.split_lines(printed), _text.split_lines(expected), strict=True)
    )


def same_value(returned: Any, expected: Any) -> bool:
    if type(returned) is tuple:
        returned = list(returned)
    return _values.same_structure(returned, expected, kinds=_PYTHON_KINDS, normalize_key=_make_python_key)


def _same_decimal(printed: str, expected: str) -> bool:
    try:
        number, expected_number = Decimal(printed), Decimal(expected)
    except InvalidOperation:
        return False
    if number.is_nan() or expected_number.is_nan():  # comparing a signalling NaN would raise
        return False
    # Decimal's == compares exponents first. hash(), int() or + 0 would expand 1e999999999999.
    return number == expected_number


def _make_python_key(key: object) -> tuple[str, Any] | None:
    """Return a sortable value that is the same for equal keys; None if the key equals no other."""
    kind = _PYTHON_KINDS.get(type(key))
    return (kind, key) if kind in {"null", "number", "str"} and key == key else None
