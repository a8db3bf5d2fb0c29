"""Hard-coded answers: the known answers to tests, and the most frequent answer to everything else.

Such a program is rewarded if there are only a few tests. `shown` is the number of leading cases that the statement
reveals.
"""

import json
from collections import Counter
from collections.abc import Iterator

from sandbox import Suite

_SHOWN = 2  # if the source does not say how many cases the statement shows, the usual number is assumed
_LONGEST = 4_000  # characters of a case worth memorising; fewer than the digits that Python refuses to read


def programs(suite: Suite, shown: int) -> Iterator[str]:
    """Yield a program that always gives the most frequent answer, and one that also has a table of the shown cases."""
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
