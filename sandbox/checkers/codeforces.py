"""Comparison of tokens in any whitespace, like the usual checkers of Codeforces (testlib's wcmp, nyesno and rcmp6).

Text: the numbers of tokens and each pair of tokens must be the same; line breaks are ignored, unlike in `tokens`. Two
tokens are the same if their texts are equal, ignoring case if yes or no is expected; or if a decimal is expected and
they differ by at most 1e-6, as in `tokens`. So integers are compared as text, and the case of other words matters.

Values: as in `tokens`; Codeforces has none.
"""

import re
from typing import Any

from sandbox.checkers import _text, tokens

_BLANK = re.compile(r"[ \t\v\f\r\n]")
_TOKEN = re.compile(r"[^ \t\v\f\r\n]+")
_IN_ANY_CASE = ("yes", "no")


def same_output(printed: str, expected: str) -> bool:
    if printed == expected:
        return True
    if _text.is_much_longer(printed, expected):
        return False
    return _text.same_line(printed, expected, _same_token, _TOKEN.findall, _BLANK)


def same_value(returned: Any, expected: Any) -> bool:
    return tokens.same_value(returned, expected)


def _same_token(printed: str, expected: str) -> bool:
    if len(expected) <= 3 and expected.lower() in _IN_ANY_CASE:
        return printed.lower() == expected.lower()
    return tokens.same_token(printed, expected)
