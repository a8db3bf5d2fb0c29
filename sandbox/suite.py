"""Tests as data: inputs, expected outputs, and the rule of comparison."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from sandbox.program import Limits, Program

_set = object.__setattr__
_encode = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Case:
    """One test. The meaning of `input` and `expected` depends on the suite:

    stdin suite       the text of standard input, and of standard output
    call suite        a JSON list of arguments, and the JSON value to return
    assertion suite   a Python call with literal arguments, and the literal to return; or Python statements that raise
                      an exception if the submission is wrong, and ""

    trial   trial output: an output that the suite's referee has accepted, such as that of a reference; empty if
            unknown. If the referee fails on an output of a submission, the judge also runs it on the trial output, to
            distinguish a faulty referee from a wrong output. The submission cannot read the trial output

    Raises TypeError for a field that is not a str.
    """

    input: str
    expected: str
    trial: str = field(default="", repr=False)

    def __init__(self, input: str, expected: str, trial: str = "") -> None:
        # Written out, since it is faster than a __post_init__, and there are millions of cases.
        if not (isinstance(input, str) and isinstance(expected, str) and isinstance(trial, str)):
            fields = {"input": input, "expected": expected, "trial": trial}
            name, value = next((name, value) for name, value in fields.items() if not isinstance(value, str))
            raise TypeError(
                f"Case.{name} must be text, not {type(value).__name__}: the input or output of a stdin suite, or the "
                "result of json.dumps for a call suite"
            )
        _set(self, "input", input)
        _set(self, "expected", expected)
        _set(self, "trial", trial)


class RefereeConvention(Enum):
    """The convention for a referee's arguments and ruling.

    TESTLIB   arguments: input, output, answer. The exit status is the ruling: 0 correct; 1, 2, 4, 8 wrong; 3 failure of
              the referee; 7 partial credit, with "points SCORE" on stderr; 50 to 150 partial credit in percent, plus 50
    PRINTED   arguments: input, answer, output. It prints 1, 0 or a score in between, as the generated checkers of
              open-r1/codeforces do
    """

    TESTLIB = "testlib"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Referee:
    """A suite's own program that decides whether an output is correct; also called special judge.

    It runs in the sandbox, separately from the submission, with three files: the case's input, its expected output
    ("answer"), and the submission's output. If it fails on an output, the judge runs it on trusted outputs: a trial
    output or, without one, the expected output or trivial outputs. If it gives a ruling on one of these, the
    submission's output counts as wrong; otherwise the judge raises RefereeError.
    """

    program: Program
    convention: RefereeConvention = RefereeConvention.TESTLIB


@dataclass(frozen=True, slots=True)
class Assertions:
    """The shared Python code of an assertion suite.

    names    functions and classes that a submission must define, and that the tests use
    given    preamble: code that the problem's statement provides, such as imports, ListNode or helper functions. It
             runs before the submission in the submission's process, and before `setup` in the tests' process. It is
             compiled separately, so its __future__ imports do not apply to the submission
    setup    code that runs before each test, only in the tests' process; the submission cannot read it
    classes  the classes among `names`. Only for instances that a test creates does the test call the submission's
             __eq__ and __contains__, not for results of functions
    """

    names: tuple[str, ...]
    given: str = ""
    setup: str = ""
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if unknown := set(self.classes) - set(self.names):
            raise ValueError(f"Assertions.classes not among Assertions.names: {', '.join(sorted(unknown))}")


PROGRAM, INTERACTIVE = "program", "interactive"  # the checkers that need a referee
PYTHON = "python"  # the checker of assertion suites


@dataclass(frozen=True, slots=True)
class Suite:
    """All tests of one problem.

    entry_point   name of the function to call: `Solution().entry_point(*args)` if the program has a class Solution with
                  that method, else the function with that name. None: the program reads stdin and prints
    checker       the rule of comparison, a file of sandbox/checkers. "program": the referee runs on each output.
                  "interactive": pipes connect the standard output of the submission and of the referee, a testlib
                  interactor, to the other's standard input. The referee gets input, output (for its own notes) and
                  answer as files
    limits        limits of each run
    referee       the referee, for the checkers "program" and "interactive"
    assertions    the shared code of Python tests. If set, entry_point must be None, and checker must be "python", which
                  compares return values
    """

    cases: tuple[Case, ...]
    entry_point: str | None = None
    checker: str = "lcb"
    limits: Limits = field(default_factory=Limits)
    referee: Referee | None = None
    assertions: Assertions | None = None

    def __init__(
        self,
        cases: Iterable[Case],
        entry_point: str | None = None,
        checker: str = "lcb",
        limits: Limits | None = None,
        referee: Referee | None = None,
        assertions: Assertions | None = None,
    ) -> None:
        cases = tuple(cases)
        if wrong := [case for case in cases if not isinstance(case, Case)]:
            raise TypeError(f"Suite.cases must be Case(input, expected), not {type(wrong[0]).__name__}")
        _set(self, "cases", cases)
        _set(self, "entry_point", entry_point)
        _set(self, "checker", checker)
        _set(self, "limits", limits or Limits())
        _set(self, "referee", referee)
        _set(self, "assertions", assertions)

    def __reduce__(self) -> tuple[Any, ...]:
        # By columns, since pickling the cases as objects takes ten times as long.
        columns = ([case.input for case in self.cases], [case.expected for case in self.cases], self.trials)
        return _from_columns, (
            columns, self.entry_point, self.checker, self.limits, self.referee, self.assertions,
        )  # fmt: skip

    @property
    def needs_python(self) -> bool:
        """True if the tests call functions of the submission, which must then be in Python."""
        return self.entry_point is not None or self.assertions is not None

    @property
    def called_names(self) -> tuple[str, ...]:
        """The names in the submission that the tests use; empty for a stdin suite."""
        if self.assertions is not None:
            return self.assertions.names
        return () if self.entry_point is None else (self.entry_point,)

    @property
    def has_statements(self) -> bool:
        """True if any test consists of statements, which run in a second process."""
        return self.assertions is not None and not all(case.expected for case in self.cases)

    @property
    def trials(self) -> tuple[str, ...]:
        """The trial outputs (see Case), one per case; empty if no case has one."""
        has_trials = any(case.trial for case in self.cases)
        return tuple(case.trial for case in self.cases) if has_trials else ()

    def with_trials(self, trials: Sequence[str]) -> "Suite":
        """Return the suite with other trial outputs.

        trials   one per case, "" if unknown; empty for none

        Raises ValueError for any other number of them.
        """
        if not trials and not self.trials:
            return self
        trials = trials or [""] * len(self.cases)
        cases = [Case(case.input, case.expected, trial) for case, trial in zip(self.cases, trials, strict=True)]
        return replace(self, cases=tuple(cases))

    def to_json(self) -> str:
        """Encode the suite as JSON. Without trial outputs, this is the `tests` column of a dataset."""
        cases = [{"input": case.input, "expected": case.expected} for case in self.cases]
        for case, fields in zip(self.cases, cases, strict=True):
            if case.trial:
                fields["trial"] = case.trial
        limits = {name: value for name, value in _list_fields(self.limits).items() if value is not None}
        content: dict[str, Any] = {"cases": cases, "entry_point": self.entry_point, "checker": self.checker}
        content["limits"] = limits
        if self.referee is not None:
            content["referee"] = {**_list_fields(self.referee.program), "convention": self.referee.convention.value}
        if self.assertions is not None:
            content["assertions"] = _list_fields(self.assertions)
        return _encode(content)

    @classmethod
    def from_json(cls, text: str) -> "Suite":
        """Decode the JSON of `to_json`. Raises ValueError, KeyError or TypeError."""
        raw: dict[str, Any] = json.loads(text)
        referee = raw.get("referee")
        shared = raw.get("assertions")
        return cls(
            [Case(case["input"], case["expected"], case.get("trial", "")) for case in raw["cases"]],
            entry_point=raw["entry_point"],
            checker=raw["checker"],
            limits=Limits(**raw["limits"]),
            referee=referee
            and Referee(Program(referee["source"], referee["language"]), RefereeConvention(referee["convention"])),
            assertions=shared
            and Assertions(tuple(shared["names"]), shared["given"], shared["setup"], tuple(shared["classes"])),
        )


def _list_fields(record: Limits | Program | Assertions) -> dict[str, Any]:
    """Return the fields by name. Unlike `asdict`, makes no copies, which would take longer than the JSON encoding."""
    return {name: getattr(record, name) for name in record.__slots__}


def _from_columns(columns: tuple[list[str], list[str], tuple[str, ...]], *rest: Any) -> Suite:
    inputs, expected, trials = columns
    return Suite(map(Case, inputs, expected, trials) if trials else map(Case, inputs, expected), *rest)
