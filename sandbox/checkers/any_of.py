"""One of several accepted answers, for problems with a known handful of them.

Text: `expected` is a JSON list of strings, each a whole accepted output; the printed text is the same if
`lcb` says so for one of them. An `expected` that is anything else (no JSON, no list, a member that is no
string) accepts nothing: whoever reads the tests sees that no reference passes.

Values: `expected` is a list of accepted values; the returned value is the same if `lcb` says so for one of
them.
"""

import json
from typing import Any

from sandbox.checkers import lcb


def same(printed: str, expected: str) -> bool:
    try:
        accepted = json.loads(expected)
    except (ValueError, RecursionError):  # RecursionError: thousands of nested brackets
        return False
    if not isinstance(accepted, list) or not all(isinstance(output, str) for output in accepted):
        return False
    printed = printed.strip()  # as lcb would do for each of them
    return any(lcb.same(printed, output) for output in accepted)


def same_value(returned: Any, expected: Any) -> bool:
    if type(returned) is tuple:
        returned = list(returned)  # as lcb would do for each of them
    return isinstance(expected, list) and any(lcb.same_value(returned, value) for value in expected)
