"""No solution at all: the answers to the tests that are known, and the most frequent answer to everything else.

This is what few tests reward. `shown` is how many leading cases the statement gives away.
"""

import json
from collections import Counter
from collections.abc import Iterator

from sandbox import Suite

_SHOWN = 2  # where the source does not say, as many as statements usually show
_LONGEST = 4_000  # characters of a case worth memorising; fewer than the digits that Python refuses to read


def programs(suite: Suite, shown: int) -> Iterator[str]:
    """The most frequent answer to everything, and that with a table of the cases shown."""
    cases = [case for case in suite.cases if len(case.input) + len(case.expected) <= _LONGEST]
    if len(cases) < 2:
        return
    usual = Counter(case.expected for case in cases).most_common(1)[0][0]
    for count in (0, min(shown or _SHOWN, len(cases) - 1)):
        table = {case.input: case.expected for case in cases[:count]}
        yield _called(table, usual, suite.entry_point) if suite.entry_point else _printing(table, usual)


def _printing(table: dict[str, str], usual: str) -> str:
    table = {"".join(text.split()): answer for text, answer in table.items()}
    return f"import sys\nprint({table!r}.get(''.join(sys.stdin.read().split()), {usual!r}))\n"


def _called(table: dict[str, str], usual: str, entry_point: str) -> str:
    table = {json.dumps(json.loads(text)): answer for text, answer in table.items()}
    return (
        f"import json\ndef {entry_point}(*arguments):\n"
        f"    return json.loads({table!r}.get(json.dumps(arguments), {usual!r}))\n"
    )
