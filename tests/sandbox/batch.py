"""Tables of programs that one Sandbox judges at the same time, since most of them only wait for a limit.

    @judged({"loop": (Program("while True: pass"), suite), "sleep": (Program(...), suite)}, quick=["loop"])
    def test_a_program_that_does_not_end_is_a_time_limit(judgement: Judgement) -> None:
        assert judgement.verdict is Verdict.TIME_LIMIT

The first test of a table has all selected programs of the table judged, by the Sandbox of the fixture `judge`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest

from sandbox import Case, Judgement, Program, Sandbox, Suite

Pair = tuple[Program, Suite]
Answer = Judgement | Exception
HARMLESS = Suite([Case("3 4\n", "7\n")])
ADDS = Program("print(sum(map(int, input().split())))")


class Batch:
    """A table of programs and their suites by name, and their judgements once a test has asked for one.

    then   a pair that is judged after each program, and must be accepted; None for nothing
    """

    def __init__(self, table: Mapping[str, Pair], *, run_all: bool, then: Pair | None) -> None:
        self._table = table
        self._run_all = run_all
        self._then = then
        self._answers: dict[str, Answer] = {}

    def answer(self, name: str, box: Sandbox, items: Iterable[pytest.Item]) -> Answer:
        """Return the judgement of a program, or the exception that judging it raised.

        box     judges the programs of all tests among `items`, on the first call
        """
        if not self._answers:
            self._judge(_selected(self, items), box)
        return self._answers[name]

    def _judge(self, names: list[str], box: Sandbox) -> None:
        pairs = [pair for name in names for pair in (self._table[name], self._then) if pair is not None]
        answers = [
            answer
            for _, answer in sorted(box.judge_many_with_errors(pairs, run_all=self._run_all), key=lambda each: each[0])
        ]
        step = 1 if self._then is None else 2
        self._answers = dict(zip(names, answers[::step], strict=True))
        for follower in answers[1::step] if self._then is not None else []:
            assert isinstance(follower, Judgement), follower
            assert follower.accepted, follower


def judged(
    table: Mapping[str, Pair], *, quick: Collection[str] | None = None, run_all: bool = False, then: Pair | None = None
) -> Any:
    """Repeat a test for each program of a table. It gets `name`, and `judgement`, or `answer` if judging may raise.

    quick   names of the programs of `make test`, the others are thorough; None for all
    then    a pair that is judged after each program, and must be accepted; None for nothing
    """
    batch = Batch(table, run_all=run_all, then=then)
    rare = set() if quick is None else table.keys() - set(quick)
    return pytest.mark.parametrize(
        "asked",
        [pytest.param((batch, name), id=name, marks=[pytest.mark.thorough] * (name in rare)) for name in table],
    )


def spread(names: Iterable[str], number: int) -> list[str]:
    """Return so many names that lie evenly in a list of similar ones."""
    names = list(names)
    return [names[index * len(names) // number] for index in range(number)]


def _selected(batch: Batch, items: Iterable[pytest.Item]) -> list[str]:
    asked = [item.callspec.params.get("asked") for item in items if hasattr(item, "callspec")]
    return [name for each in asked if each is not None for owner, name in [each] if owner is batch]
