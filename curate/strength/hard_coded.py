"""Hard-coded answers: the known answers to tests, and the most frequent answer to everything else.

This mistake ignores the right program and takes its answers from the tests. It is rewarded if there are only a few.
"""

import ast
import json
from collections import Counter
from collections.abc import Iterator, Sequence

from sandbox import Suite

_DEFAULT_SHOWN_CASES = 2  # if the source does not say how many cases the statement shows, the usual number is assumed
_LONGEST = 4_000  # characters of a case worth memorising; fewer than the digits that Python refuses to read


def programs(suite: Suite, n_shown_cases: int) -> Iterator[str]:
    """Yield a program that always gives the most frequent answer, and one that also has a table of the shown cases.

    n_shown_cases: number of leading cases of the suite that the statement reveals; 0: not known
    """
    cases = [case for case in suite.cases if len(case.input) + len(case.expected) <= _LONGEST]
    if suite.assertions is not None:
        cases = [case for case in cases if case.expected]  # the others do not show what is expected
    if len(cases) < 2:
        return
    usual = Counter(case.expected for case in cases).most_common(1)[0][0]
    for count in (0, min(n_shown_cases or _DEFAULT_SHOWN_CASES, len(cases) - 1)):
        table = {case.input: case.expected for case in cases[:count]}
        if suite.assertions is not None:
            yield _answering([case.input for case in cases], table, usual)
        elif suite.entry_point:
            yield _called(table, usual, suite.entry_point)
        else:
            yield _printing(table, usual)


def _printing(table: dict[str, str], usual: str) -> str:
    table = {"".join(text.split()): answer for text, answer in table.items()}
    return f"import sys\nprint({table!r}.get(''.join(sys.stdin.read().split()), {usual!r}))\n"


def _called(table: dict[str, str], usual: str, entry_point: str) -> str:
    table = {json.dumps(json.loads(text)): answer for text, answer in table.items()}
    return (
        f"import json\ndef {entry_point}(*arguments):\n"
        f"    return json.loads({table!r}.get(json.dumps(arguments), {usual!r}))\n"
    )


def _answering(calls: Sequence[str], table: dict[str, str], usual: str) -> str:
    """Return a program that defines each function that is called, for calls and answers that are Python.

    calls  the calls of all cases
    table  answers by call, for the cases that the program knows
    usual  the answer to all other calls
    """
    rows: dict[str, list[str]] = {}
    for text in calls:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        function = rows.setdefault(ast.unparse(call.func), [])
        if text in table:
            arguments = "".join(f"{ast.unparse(argument)}, " for argument in call.args)
            keywords = ", ".join(f"{keyword.arg!r}: {ast.unparse(keyword.value)}" for keyword in call.keywords)
            function.append(f"repr((({arguments}), {{{keywords}}})): {table[text]}")
    lines = ["class Solution:"] if any("." in name for name in rows) else []
    for name, known in sorted(rows.items(), key=lambda row: "." not in row[0]):
        indent, instance = ("    ", "self, ") if "." in name else ("", "")
        lines += [
            f"{indent}def {name.rpartition('.')[2]}({instance}*arguments, **named):",
            f"{indent}    return {{{', '.join(known)}}}.get(repr((arguments, named)), {usual})",
        ]
    return "\n".join(lines) + "\n"
