"""Comparison character by character, as in verl's client of SandboxFusion, except that CRLF counts as LF.

Text: equal after replacing CRLF by LF and removing all newlines at the end. Any other difference counts, such as a
space before a newline, a blank line at the start or the case of a letter.

Values: equal as JSON. Tuples are lists at any depth, a bool is not a number, and {1: x} is {"1": x}, since an object's
keys are strings; numbers are equal by value, without tolerance (1 is 1.0). NaN and sets equal nothing.
"""

from typing import Any

from sandbox.checkers import _text, _values


def same_output(printed: str, expected: str) -> bool:
    if printed == expected:
        return True
    return not _text.is_much_longer(printed, expected) and _strip_newlines(printed) == _strip_newlines(expected)


def same_value(returned: Any, expected: Any) -> bool:
    return _values.same_structure(returned, expected)


def _strip_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip("\n")
