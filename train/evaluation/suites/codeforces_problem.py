"""A problem of Codeforces as its rows describe it, and the exercise that it becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from curate.errors import CurateError
from curate.reading.tables import TableFiles
from sandbox import Case, Limits, Program, Referee, RefereeConvention, Suite
from sandbox.suite import PROGRAM
from train.evaluation.codeforces.contests import parse_contest_ids, problem_id
from train.evaluation.exercise import Exercise
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.protocols.protocol import Statement
from train.evaluation.statistics.outcomes import ProblemMetadata
from train.evaluation.suites.suite import SuiteOptions

OFFICIAL, GENERATED, EXAMPLES = "official", "official+generated", "examples"  # where tests come from
TIME_FACTOR, MEMORY_FACTOR = 5.0, 2.0  # for Python; 1 for the limits of Codeforces themselves
_MIN_MB = 256
_DEFAULT_SECONDS, _DEFAULT_MB = 2.0, 256.0  # what most problems have; for rows that state no limits
_CHECKER = "codeforces"


@dataclass(frozen=True, slots=True)
class LimitFactors:
    """By what the stated limits, which suit C++, are multiplied."""

    time: float = TIME_FACTOR
    memory: float = MEMORY_FACTOR

    @classmethod
    def of(cls, table: TableFiles) -> "LimitFactors":
        """Read the options of a table. Raises CurateError if they are not positive numbers."""
        return cls(
            _factor(table.options, "time_factor", TIME_FACTOR), _factor(table.options, "memory_factor", MEMORY_FACTOR)
        )


@dataclass(frozen=True, slots=True)
class ProblemFilter:
    """Which problems are wanted.

    contests    numbers of contests; empty: all
    date_range  first and last day, both included; None: all
    """

    contests: frozenset[int] = frozenset()
    date_range: tuple[str, str] | None = None

    @classmethod
    def of(cls, table: TableFiles, options: SuiteOptions) -> "ProblemFilter":
        """Read the option `contests` of a table. Raises CurateError if it has another form."""
        numbers = parse_contest_ids(str(table.options["contests"])) if "contests" in table.options else ()
        return cls(frozenset(numbers), options.date_range)

    def matches(self, keys: Sequence[tuple[int, str]], day: date | None) -> bool:
        """Tell whether a problem is wanted. Raises CurateError if its day decides and is not known."""
        if self.contests and not any(contest in self.contests for contest, _ in keys):
            return False
        if self.date_range is None:
            return True
        if day is None:
            raise CurateError("These problems have no dates. Leave the window out.")
        return self.date_range[0] <= day.isoformat() <= self.date_range[1]


def _factor(options: Mapping[str, Any], name: str, default: float) -> float:
    try:
        value = float(options.get(name, default))
    except (TypeError, ValueError):
        value = 0.0
    if not 0 < value <= 1000:
        raise CurateError(f"{name} must be a number above 0, such as {default:g}, not {options[name]!r}")
    return value


@dataclass(frozen=True, slots=True)
class CodeforcesProblem:
    """A problem.

    keys          its contest and index, and those under which other contests have it; empty: unknown
    name          what it is called if it has no key
    statement     as the row has it, nothing is stripped
    tests_source  OFFICIAL, GENERATED or EXAMPLES
    checker       a program in Python that rules by printing 1 or 0, for problems with several right answers; empty:
                  outputs are compared with the expected ones
    wall_seconds  of each test, as Codeforces states it; 0: unknown
    memory_mb     the same
    """

    keys: tuple[tuple[int, str], ...]
    name: str
    statement: str
    cases: tuple[Case, ...]
    tests_source: str
    checker: str = ""
    wall_seconds: float = 0.0
    memory_mb: float = 0.0
    rating: int | None = None
    day: date | None = None

    def suite(self, factors: LimitFactors) -> Suite:
        """Return its tests."""
        limits = Limits(
            wall_seconds=factors.time * (self.wall_seconds or _DEFAULT_SECONDS),
            memory_mb=max(_MIN_MB, round(factors.memory * (self.memory_mb or _DEFAULT_MB))),
        )
        if self.checker:
            referee = Referee(Program(self.checker), RefereeConvention.PRINTED)
            return Suite(self.cases, checker=PROGRAM, limits=limits, referee=referee)
        return Suite(self.cases, checker=_CHECKER, limits=limits)

    def exercise(self, options: SuiteOptions, factors: LimitFactors) -> Exercise:
        suite = self.suite(factors)
        return options.make_exercise(
            problem_id(self.keys) or f"codeforces/{self.name}",
            Statement(self.statement),
            options.prompt.chat(self.statement.strip(), "", suite),
            SuiteJudge(options.with_time_limit(suite), options.languages, options.extraction),
            ProblemMetadata(self.rating, "codeforces", self.day, self.tests_source),
        )


def format_sections(*parts: tuple[str, str]) -> str:
    """Return a statement that has these headings and texts, without those that are empty."""
    written = [
        f"## {heading}\n\n{text.strip()}" if heading else text.strip() for heading, text in parts if text.strip()
    ]
    return "\n\n".join(written)


def format_examples(examples: tuple[Case, ...]) -> str:
    """Return examples as a statement shows them."""
    return "\n\n".join(
        f"Input:\n```\n{case.input.strip()}\n```\nOutput:\n```\n{case.expected.strip()}\n```" for case in examples
    )
