"""Comparison with several expected outputs or values, for problems whose few correct ones are all known.

Text: `expected` is a JSON list of strings, each a complete output; an output is accepted if `lcb` accepts it for one of
them. If `expected` is anything else, no output is accepted, not even that of a reference.

Values: `expected` is a list of values; a returned value is accepted if `lcb` accepts it for one of them.
"""

import json
from typing import Any

from sandbox.checkers import lcb


def same_output(printed: str, expected: str) -> bool:
    try:
        accepted = json.loads(expected)
    except (ValueError, RecursionError):  # json.loads raises RecursionError for thousands of nested brackets
        return False
    if not isinstance(accepted, list) or not all(isinstance(output, str) for output in accepted):
        return False
    printed = printed.strip()  # otherwise lcb would copy it for each accepted output
    return any(lcb.same_output(printed, output) for output in accepted)


def same_value(returned: Any, expected: Any) -> bool:
    if type(returned) is tuple:
        returned = list(returned)  # otherwise lcb would convert it for each accepted value
    return isinstance(expected, list) and any(lcb.same_value(returned, value) for value in expected)
