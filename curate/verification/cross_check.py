"""What a problem's other solutions say of its tests.

One solution that passes shows that tests and solution agree with each other. Others show more: solutions that the
source calls accepted and that answer a test differently suggest that it has several right answers; and where no
solution passes, but most of them give the same answer, it is the test that is wrong rather than all of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from curate.problem import Problem, Wrapping
from curate.reading.solutions import candidates
from curate.verification.observed import answers
from curate.verification.references import Finding, cpu_seconds, unwrapped
from curate.verification.retrying import each
from sandbox import Judgement, Limits, Program, RunResult, Sandbox, Suite, Verdict

_SECONDS = 60.0  # wall time for all tests of one solution: this is advice, and what is not run says nothing
_PLACES = 10  # tests at which answers are compared; wrong tests come in numbers
_PIVOTS = 3  # solutions whose answers are put to the others


@dataclass(frozen=True, slots=True)
class Opinion:
    """What was found about one problem's tests.

    n_passing     other solutions that pass all tests, too
    n_dissenting  solutions that pass at least half of the tests and answer the others, none of them with an error,
                  otherwise than expected
    n_wrong_tests  tests at which most solutions agree with each other but not with the expected output; counted
                  among the first that most of them fail, and only where none passes
    n_asked       solutions executed for this
    spent_seconds  CPU time of all that was executed
    """

    n_passing: int = 0
    n_dissenting: int = 0
    n_wrong_tests: int = 0
    n_asked: int = 0
    spent_seconds: float = 0.0

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Opinion":
        return cls(**record)


def cross_check(
    problems: Iterable[Problem],
    findings: Mapping[str, Finding],
    sandbox: Sandbox,
    *,
    others: int,
    tries: int,
    languages: Sequence[str],
) -> Iterator[tuple[Problem, Opinion]]:
    """Execute `others` further solutions of a problem of which one has passed, or those tried in vain (`tries`) of
    one of which none has. Raises CurateError when the sandbox fails again and again."""

    def ask(problem: Problem) -> Opinion:
        finding = findings[problem.id]
        solutions = candidates(problem, languages)
        if finding.passed is not None:
            suite = unwrapped(problem.tests) if finding.wrapping is Wrapping.REMOVED else problem.tests
            del solutions[finding.passed]
            return _seconded(_Court(suite, sandbox), solutions[:others])
        suite = unwrapped(problem.tests) if problem.wrapping is Wrapping.UNDECIDED else problem.tests
        return _overruled(_Court(suite, sandbox), solutions[:tries])

    yield from each(problems, ask, sandbox)


class _Court:
    """A suite whose every case is judged, within a budget, and the CPU time that this took."""

    def __init__(self, suite: Suite, sandbox: Sandbox) -> None:
        budget = min(_SECONDS, suite.limits.budget_seconds or _SECONDS)
        self.suite = replace(suite, limits=replace(suite.limits, budget_seconds=budget))
        self.spent_seconds = 0.0
        self._sandbox = sandbox

    def judge(self, programs: Sequence[Program], suite: Suite) -> list[Judgement]:
        """In the order of the programs."""
        found = dict(self._sandbox.judge_many([(program, suite) for program in programs], run_all=True))
        self.spent_seconds += sum(map(cpu_seconds, found.values()))
        return [found[index] for index in range(len(programs))]

    def run(self, program: Program, stdin: str, limits: Limits) -> RunResult:
        result = self._sandbox.run(program, stdin, limits)
        self.spent_seconds += result.cpu_seconds
        return result


def _seconded(court: _Court, solutions: Sequence[Program]) -> Opinion:
    """Whether others pass the tests that one has passed."""
    verdicts = [[case.verdict for case in judgement.cases] for judgement in court.judge(solutions, court.suite)]
    n_cases = len(court.suite.cases)
    return Opinion(
        n_passing=sum(row == [Verdict.ACCEPTED] * n_cases for row in verdicts),
        n_dissenting=sum(_dissents(row, n_cases) for row in verdicts),
        n_asked=len(solutions),
        spent_seconds=round(court.spent_seconds, 6),
    )


def _dissents(verdicts: Sequence[Verdict], n_cases: int) -> bool:
    accepted, wrong = verdicts.count(Verdict.ACCEPTED), verdicts.count(Verdict.WRONG_ANSWER)
    return accepted + wrong == n_cases and n_cases / 2 <= accepted < n_cases


def _overruled(court: _Court, solutions: Sequence[Program]) -> Opinion:
    """Whether most of the solutions that fail agree with each other where they do."""
    if len(solutions) < 2:
        return Opinion(n_asked=0)
    failed = {
        solution: {place for place, case in enumerate(judgement.cases) if case.verdict is Verdict.WRONG_ANSWER}
        for solution, judgement in zip(solutions, court.judge(solutions, court.suite), strict=True)
    }
    counts = Counter(place for places in failed.values() for place in places)
    disputed = sorted(place for place, n in counts.items() if n > len(solutions) / 2)[:_PLACES]
    wrong: set[str] = set()
    for pivot in sorted(solutions, key=lambda solution: -len(failed[solution] & set(disputed)))[:_PIVOTS]:
        if disputed:
            wrong |= _agreed(court, pivot, [s for s in solutions if s != pivot], disputed)
    return Opinion(n_wrong_tests=len(wrong), n_asked=len(solutions), spent_seconds=round(court.spent_seconds, 6))


def _agreed(court: _Court, pivot: Program, others: Sequence[Program], places: Sequence[int]) -> set[str]:
    """Inputs at which most of all solutions give the pivot's answer, which is not the expected one."""
    suite = replace(court.suite, cases=tuple(court.suite.cases[place] for place in places))
    own = court.judge([pivot], suite)[0].cases
    inputs = [case.input for case, seen in zip(suite.cases, own, strict=False) if seen.verdict is Verdict.WRONG_ANSWER]
    cases = list(answers(pivot, inputs, suite, partial(court.run, limits=suite.limits)))
    if not cases:
        return set()
    agreeing = Counter(case.input for case in cases)
    theirs = replace(suite, cases=tuple(cases))
    for judgement in court.judge(others, theirs):
        seconded = zip(cases, judgement.cases, strict=False)
        agreeing.update(case.input for case, seen in seconded if seen.verdict is Verdict.ACCEPTED)
    return {text for text, n in agreeing.items() if n > (len(others) + 1) / 2}
