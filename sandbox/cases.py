"""Tests as data: what a program is given, what must come back, and by which rule the two are compared."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from sandbox.program import Limits, Program


@dataclass(frozen=True, slots=True)
class Case:
    """One test.

    In a stdin suite, `input` is standard input and `expected` is standard output, both as text. In a call suite,
    `input` is a JSON list of arguments and `expected` is a JSON value.
    """

    input: str
    expected: str


class Convention(Enum):
    """How a referee is started, and how it gives its ruling.

    TESTLIB   its arguments are input, output and answer; its exit status is the ruling (0: right; 1, 2, 4, 8: wrong;
              3: the checker failed; 7: partial credit, "points SCORE" on stderr; 50 to 150: a hundred steps of partial
              credit)
    PRINTED   its arguments are input, answer and output; it prints 1, 0 or a score in between, as the generated
              checkers of open-r1/codeforces do
    """

    TESTLIB = "testlib"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Referee:
    """A program that decides whether an output is right, where no rule of comparison can.

    It runs in the sandbox, apart from the submission, with the case's input, its expected output ("answer") and the
    submission's output as files. If it fails on an output, it is tried on the expected one, or on trivial ones if that
    is empty. If it gives a ruling on one of these, the output was wrong; if it fails on all of them, the suite is at
    fault (RefereeFailed).
    """

    program: Program
    convention: Convention = Convention.TESTLIB


PROGRAM, INTERACTIVE = "program", "interactive"  # the checkers that need a referee


@dataclass(frozen=True, slots=True)
class Suite:
    """All tests of one problem.

    entry_point   None: the program reads stdin and prints. Otherwise it is called: `Solution().entry_point(*args)` if
                  the program has a class Solution with that method, else the plain function of that name
    checker       the rule of comparison, a file of sandbox/checkers. "program": the referee is run on each output.
                  "interactive": the referee, a testlib interactor, talks to the submission: the standard output of each
                  is the standard input of the other. It gets input, output (for its own notes) and answer as files
    limits        bounds of each run
    referee       the program that decides, for the checkers "program" and "interactive"
    """

    cases: tuple[Case, ...]
    entry_point: str | None = None
    checker: str = "lcb"
    limits: Limits = field(default_factory=Limits)
    referee: Referee | None = None

    def __init__(
        self,
        cases: Iterable[Case],
        entry_point: str | None = None,
        checker: str = "lcb",
        limits: Limits | None = None,
        referee: Referee | None = None,
    ) -> None:
        object.__setattr__(self, "cases", tuple(cases))
        object.__setattr__(self, "entry_point", entry_point)
        object.__setattr__(self, "checker", checker)
        object.__setattr__(self, "limits", limits or Limits())
        object.__setattr__(self, "referee", referee)

    def to_json(self) -> str:
        """Return the suite as text: the `tests` column of a dataset is exactly this."""
        limits = {name: value for name, value in asdict(self.limits).items() if value is not None}
        content = {
            "cases": [{"input": case.input, "expected": case.expected} for case in self.cases],
            "entry_point": self.entry_point,
            "checker": self.checker,
            "limits": limits,
        }
        if self.referee is not None:
            content["referee"] = {**asdict(self.referee.program), "convention": self.referee.convention.value}
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Suite":
        """Return the suite that `to_json` wrote as text. Raises ValueError, KeyError or TypeError."""
        raw: dict[str, Any] = json.loads(text)
        referee = raw.get("referee")
        return cls(
            [Case(case["input"], case["expected"]) for case in raw["cases"]],
            entry_point=raw["entry_point"],
            checker=raw["checker"],
            limits=Limits(**raw["limits"]),
            referee=referee
            and Referee(Program(referee["source"], referee["language"]), Convention(referee["convention"])),
        )
