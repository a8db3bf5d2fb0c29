"""A reference must pass every test, twice: then problem, tests and solution agree with each other.

Tries are bounded and cheap first, and stop at the first solution that passes. The second run has another seed
(hash order and `random` differ), so that a solution that passes by luck falls out.
"""

import hashlib
import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from curate.problem import Problem, Wrapping
from curate.reading.solutions import candidates
from curate.reading.values import json_text, json_value
from curate.verification.failure_cause import cause
from curate.verification.retrying import FAILURES_IN_A_ROW, broken
from sandbox import Case, Judgement, Limits, Program, Sandbox, SandboxError, Suite

log = logging.getLogger(__name__)

_TIMES_THE_REFERENCE, _LEAST_SECONDS = 5.0, 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What executing a problem's solutions showed. passed is the place of the solution that passed among
    the candidates, None if none did; causes say in order why the others failed (failure_cause.py); cpu_seconds are
    those of the solution that passed, over all tests, slowest_seconds at the slowest of them; spent_seconds those of
    all that was executed."""

    passed: int | None
    wrapping: Wrapping
    causes: tuple[str, ...]
    cpu_seconds: float
    slowest_seconds: float
    spent_seconds: float

    @property
    def n_tries(self) -> int:
        """Solutions executed."""
        return len(self.causes) + (self.passed is not None)

    def to_record(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "wrapping": self.wrapping.value,
            "causes": list(self.causes),
            "cpu_seconds": self.cpu_seconds,
            "slowest_seconds": self.slowest_seconds,
            "spent_seconds": self.spent_seconds,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Finding":
        return cls(
            record["passed"],
            Wrapping(record["wrapping"]),
            tuple(record["causes"]),
            record["cpu_seconds"],
            record["slowest_seconds"],
            record["spent_seconds"],
        )


def fingerprint(problem: Problem, *, tries: int, languages: Sequence[str], seed: int) -> str:
    """Names everything a Finding depends on: the tests, the solutions and how they are run."""
    solutions = [(s.source, s.language) for s in candidates(problem, languages)[:tries]]
    content = [problem.tests.to_json(), problem.wrapping.value, solutions, seed]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def find_references(
    problems: Iterable[Problem], sandbox: Sandbox, *, tries: int, languages: Sequence[str]
) -> Iterator[tuple[Problem, Finding]]:
    """Execute each problem's solutions in the `languages` until one passes or `tries` have failed; findings come as
    ready.

    Raises CurateError when the sandbox fails again and again: nothing is then known about those problems.
    """

    def begin(problem: Problem) -> "_Attempt":
        return _Attempt(problem, candidates(problem, languages)[:tries])

    for attempt, judgement in _judged(map(begin, problems), sandbox):
        finding = attempt.next(judgement)
        if finding is not None:
            yield attempt.problem, finding


def run_again(settled: Iterable[Problem], sandbox: Sandbox) -> Iterator[tuple[Problem, Judgement]]:
    """Run the reference of each verified problem once more. Raises CurateError as find_references does."""

    def begin(problem: Problem) -> "_Attempt":
        assert problem.reference is not None
        return _Attempt(problem, [problem.reference])

    for attempt, judgement in _judged(map(begin, settled), sandbox):
        attempt.next(judgement)
        yield attempt.problem, judgement


def settle(problem: Problem, finding: Finding, *, languages: Sequence[str]) -> Problem:
    """The problem with what its execution showed; `languages` are those it was found with."""
    if finding.passed is None:
        return problem
    return replace(
        problem,
        tests=unwrapped(problem.tests) if finding.wrapping is Wrapping.REMOVED else problem.tests,
        wrapping=finding.wrapping,
        verified=True,
        reference=candidates(problem, languages)[finding.passed],
        n_tries=finding.n_tries,
        n_references=1,
        cpu_seconds=finding.cpu_seconds,
        slowest_cpu_seconds=finding.slowest_seconds,
        time_limit_seconds=calibrated_seconds(finding.slowest_seconds, problem.tests.limits),
    )


def calibrated_seconds(slowest_seconds: float, limits: Limits) -> float:
    """Wall seconds that a solution may take for a test, from what the slowest test takes the reference (CPU seconds).

    Kattis' rule for problem packages, 5 times the slowest accepted submission and no less than a second
    (problemtools, time_multiplier and the floor of its time limits); never more than the suite's own limit.
    """
    return round(min(max(_TIMES_THE_REFERENCE * slowest_seconds, _LEAST_SECONDS), limits.wall_seconds), 3)


def unwrapped(suite: Suite) -> Suite:
    """The suite with each expected value taken out of its list of one."""
    values = [json_value(case.expected, "an output")[0] for case in suite.cases]
    cases = [Case(case.input, json_text(value, "an output")) for case, value in zip(suite.cases, values, strict=True)]
    return Suite(cases, entry_point=suite.entry_point, checker=suite.checker, limits=suite.limits)


def cpu_seconds(judgement: Judgement) -> float:
    """What its runs have used."""
    return sum(case.cpu_seconds for case in judgement.cases)


class _Attempt:
    """Where one problem stands: which solution is next, and in which reading of the expected values."""

    def __init__(self, problem: Problem, solutions: list[Program]) -> None:
        self.problem = problem
        self._solutions = solutions
        self._causes: list[str] = []
        # One reading holds for the whole problem: a solution must pass all its tests in the same one.
        if problem.wrapping is Wrapping.UNDECIDED:
            self._readings = [(Wrapping.KEPT, problem.tests), (Wrapping.REMOVED, unwrapped(problem.tests))]
        else:
            self._readings = [(problem.wrapping, problem.tests)]
        self._reading = 0
        self._spent_seconds = 0.0
        self.finished = not solutions

    def pair(self) -> tuple[Program, Suite]:
        return self._solutions[len(self._causes)], self._readings[self._reading][1]

    def next(self, judgement: Judgement) -> Finding | None:
        """Take in a judgement; the finding if it was the last one needed."""
        seconds = cpu_seconds(judgement)
        self._spent_seconds += seconds
        if not judgement.accepted and self._reading + 1 < len(self._readings):
            self._reading += 1
            return None
        wrapping = self._readings[self._reading][0]
        self._reading = 0
        if judgement.accepted:
            self.finished = True
            slowest = max(case.cpu_seconds for case in judgement.cases)
            passed = len(self._causes)
            return Finding(passed, wrapping, tuple(self._causes), seconds, slowest, self._spent_seconds)
        self._causes.append(cause(judgement))
        self.finished = len(self._causes) == len(self._solutions)
        if not self.finished:
            return None
        return Finding(None, self.problem.wrapping, tuple(self._causes), 0.0, 0.0, self._spent_seconds)


def _judged(attempts: Iterator[_Attempt], sandbox: Sandbox) -> Iterator[tuple[_Attempt, Judgement]]:
    """Judge each attempt's pairs one after another, many attempts side by side.

    An attempt that its consumer leaves unfinished is continued before a new one is begun, so few are open.
    """
    waiting: deque[_Attempt] = deque()
    running: dict[int, _Attempt] = {}
    failures = 0

    def pairs() -> Iterator[tuple[Program, Suite]]:
        number = 0
        while (attempt := waiting.popleft() if waiting else next(attempts, None)) is not None:
            running[number] = attempt
            number += 1
            yield attempt.pair()

    while True:
        try:
            for index, judgement in sandbox.judge_many(pairs()):
                failures = 0
                attempt = running.pop(index)
                yield attempt, judgement
                if not attempt.finished:
                    waiting.append(attempt)
        except SandboxError as error:
            failures += 1
            if failures == FAILURES_IN_A_ROW:
                raise broken(error) from error
            log.warning("the sandbox failed, trying again: %s", error)
            waiting.extend(running.values())
            running.clear()
        else:
            if not waiting:  # a last one may have failed after all others were handed out
                return
