"""Tests as data: what a program is given, what must come back, and by which rule the two are compared."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from sandbox.program import Limits


@dataclass(frozen=True, slots=True)
class Case:
    """One test. In a stdin suite `input` is standard input and `expected` standard output, as text. In a call
    suite `input` is a JSON list of arguments and `expected` a JSON value."""

    input: str
    expected: str


@dataclass(frozen=True, slots=True)
class Suite:
    """All tests of one problem.

    entry_point None: the program reads stdin and prints. Otherwise it is called: `Solution().entry_point(*args)`
    if the program has a class Solution with that method, else the plain function of that name.
    checker names the rule of comparison, a file of sandbox/checkers.
    """

    cases: tuple[Case, ...]
    entry_point: str | None = None
    checker: str = "lcb"
    limits: Limits = field(default_factory=Limits)

    def __init__(
        self,
        cases: Iterable[Case],
        entry_point: str | None = None,
        checker: str = "lcb",
        limits: Limits | None = None,
    ) -> None:
        object.__setattr__(self, "cases", tuple(cases))
        object.__setattr__(self, "entry_point", entry_point)
        object.__setattr__(self, "checker", checker)
        object.__setattr__(self, "limits", limits or Limits())

    def to_json(self) -> str:
        """The one text form of a suite: the `tests` column of a dataset is exactly this."""
        limits = {name: value for name, value in asdict(self.limits).items() if value is not None}
        return json.dumps(
            {
                "cases": [{"input": case.input, "expected": case.expected} for case in self.cases],
                "entry_point": self.entry_point,
                "checker": self.checker,
                "limits": limits,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> "Suite":
        """Inverse of to_json. Raises ValueError, KeyError or TypeError on anything else."""
        raw: dict[str, Any] = json.loads(text)
        return cls(
            [Case(case["input"], case["expected"]) for case in raw["cases"]],
            entry_point=raw["entry_point"],
            checker=raw["checker"],
            limits=Limits(**raw["limits"]),
        )
