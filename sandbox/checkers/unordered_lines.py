"""Comparison of lines in any order: DMOJ's `unordered` (judge-server at 3ea44ac).

Text: CRLF is LF; blank lines at both ends of the text, and blanks at both ends of a line, are ignored. The remaining
lines are compared as a multiset of texts: the three lines 0, 1, 0 are not the three lines 1, 0, 1. Blank lines inside
count like any other line.

Values: two lists (or tuples) are equal if their members are, as multisets; anything else, and each member, is compared
as in `exact`. So only the order of the outermost list is ignored.
"""

from typing import Any

from sandbox.checkers import _text, _values


def same_output(printed: str, expected: str) -> bool:
    if printed == expected:
        return True
    if _text.is_much_longer(printed, expected):
        return False
    printed, expected = _text.normalize_text(printed), _text.normalize_text(expected)
    return printed.count("\n") == expected.count("\n") and _sort_lines(printed) == _sort_lines(expected)


def same_value(returned: Any, expected: Any) -> bool:
    if type(returned) in (list, tuple) and type(expected) in (list, tuple):
        return _values.same_multiset(returned, expected)
    return _values.same_structure(returned, expected)


def _sort_lines(text: str) -> list[str]:
    return sorted(line.strip(_text.BLANKS) for line in _text.split_lines(text))
