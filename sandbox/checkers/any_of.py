"""Accepts any one of several answers, for problems with a small, known number of right answers.

Text: `expected` is a JSON list of strings, each a whole accepted output; the printed text is accepted if `lcb` accepts
it for one of them. With any other `expected` (not JSON, not a list, a member that is not a string), nothing is
accepted, which shows when no reference solution passes.

Values: `expected` is a list of accepted values; the returned value is accepted if `lcb` accepts it for one of them.
"""

import json
from typing import Any

from sandbox.checkers import lcb


def same_output(printed: str, expected: str) -> bool:
    try:
        accepted = json.loads(expected)
    except (ValueError, RecursionError):  # RecursionError: thousands of nested brackets
        return False
    if not isinstance(accepted, list) or not all(isinstance(output, str) for output in accepted):
        return False
    printed = printed.strip()  # as lcb would do for each of them
    return any(lcb.same_output(printed, output) for output in accepted)


def same_value(returned: Any, expected: Any) -> bool:
    if type(returned) is tuple:
        returned = list(returned)  # as lcb would do for each of them
    return isinstance(expected, list) and any(lcb.same_value(returned, value) for value in expected)
