"""Execute solutions until one passes every test; a problem without such a solution is rejected.

The solution that passes is the reference: problem, tests and solution are consistent. A limited number of
solutions is tried, the cheapest first. The stage `rerun` runs the reference again with another seed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from curate.build_state import BuildState
from curate.json_records import json_key, omit_if_default
from curate.judging import CaseFailure, MeteredSandbox, cpu_seconds, failure_cause, first_failure
from curate.problem import Problem, Wrapping
from curate.reading.solutions import select_candidates
from curate.reading.values import dump_json, parse_json
from curate.stage import BuildRow, OpenSandbox, ProblemStage, compute_fingerprint
from sandbox import Case, Limits, Program, Suite, Verdict

NO_REFERENCE = "reference_fails"  # the reason of its rejections
_REFERENCE_FACTOR, _MIN_SECONDS = 5.0, 1.0


@dataclass(frozen=True, slots=True)
class ReferenceRecord:
    """The result of executing a problem's solutions.

    passing_index      index among the candidates of the solution that passed; None: no solution that was tried passed
    wrapping           interpretation of expected values in one-element lists
    causes             causes of the failures of the earlier solutions, in order
    cpu_seconds        CPU time of the solution that passed, over all tests
    slowest_seconds    CPU time of that solution at its slowest test
    spent_cpu_seconds  CPU time of everything that was executed
    failures           the first failure of each solution, in order, if no solution passed
    """

    passing_index: int | None = field(metadata=json_key("passed"))
    wrapping: Wrapping
    causes: tuple[str, ...]
    cpu_seconds: float
    slowest_seconds: float
    spent_cpu_seconds: float = field(metadata=json_key("spent_seconds"))
    failures: tuple[CaseFailure, ...] = omit_if_default(())

    @property
    def n_tries(self) -> int:
        """The number of solutions executed."""
        return len(self.causes) + (self.passing_index is not None)


class VerificationStage(ProblemStage[ReferenceRecord]):
    """The search for a reference among the solutions of each problem.

    tries      maximum number of solutions to execute
    languages  languages of the solutions that may be executed
    seed       seed of the programs' random numbers and hashes
    """

    name = "verify"
    record_type = ReferenceRecord

    seed: int

    def __init__(self, *, tries: int, languages: tuple[str, ...], seed: int) -> None:
        self.tries, self.languages, self.seed = tries, languages, seed

    @property
    def options(self) -> Mapping[str, Any]:
        return {"tries": self.tries, "reference_languages": self.languages, "seed": self.seed}

    def key(self, row: BuildRow) -> str | None:
        problem = row.problem
        if problem.solutions is None or not problem.tests.cases:  # without tests, there is nothing to verify
            return None
        solutions = [(s.source, s.language) for s in self.candidates(problem)[: self.tries]]
        tests = problem.tests.with_trials(()).to_json()
        return compute_fingerprint(tests, problem.wrapping.value, solutions, self.seed)

    def candidates(self, problem: Problem) -> Sequence[Program]:
        """Return the solutions that may be executed, in the order in which they are tried."""
        return select_candidates(problem, self.languages)

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> ReferenceRecord:
        solutions = self.candidates(row.problem)[: self.tries]
        return find_reference(row.problem, solutions, MeteredSandbox(sandbox(self.seed)))

    def settle(self, row: BuildRow, record: ReferenceRecord) -> BuildRow:
        if record.passing_index is None:
            causes = Counter(record.causes)
            detail = ", ".join(f"{cause} {n}" for cause, n in sorted(causes.items()))
            detail += f"; {record.n_tries} of {len(row.problem.solutions or ())} solutions tried"
            rejected = row.reject("verify", NO_REFERENCE, detail, causes.most_common(1)[0][0])
            return replace(rejected, failures=choose_informative_failures(record.failures))
        removed = record.wrapping is Wrapping.REMOVED
        return row.update(
            tests=unwrap_expected_values(row.problem.tests) if removed else row.problem.tests,
            wrapping=record.wrapping,
            verified=True,
            reference=self.candidates(row.problem)[record.passing_index],
            n_tries=record.n_tries,
            n_references=1,
            cpu_seconds=record.cpu_seconds,
            slowest_cpu_seconds=record.slowest_seconds,
            time_limit_seconds=calibrate_limit(record.slowest_seconds, row.problem.tests.limits),
        )

    def cpu_seconds(self, record: ReferenceRecord) -> float:
        return record.spent_cpu_seconds

    def summarize(self, records: Iterable[ReferenceRecord], build: BuildState) -> None:
        build.outputs.reference_cpu_seconds = sum(record.cpu_seconds for record in records)


def choose_informative_failures(failures: Sequence[CaseFailure]) -> tuple[CaseFailure, ...]:
    """Return the failures on one test: the one with most wrong answers, or with most failures if none is wrong."""
    wrong = [failure for failure in failures if failure.verdict is Verdict.WRONG_ANSWER]
    counts = Counter(failure.test_index for failure in wrong or failures)
    test = min(counts, key=lambda test: (-counts[test], test), default=None)
    return tuple(failure for failure in wrong or failures if failure.test_index == test)


def passing_index(problem: Problem) -> int | None:
    """Return the index of the reference among the candidates; None if no solution has passed."""
    return problem.n_tries - 1 if problem.verified else None


def suite_as_judged(problem: Problem) -> Suite:
    """Return the tests in the form of the latest judgement of the problem's solutions."""
    undecided = problem.wrapping is Wrapping.UNDECIDED
    return unwrap_expected_values(problem.tests) if undecided else problem.tests


def calibrate_limit(slowest_seconds: float, limits: Limits) -> float:
    """Return the wall seconds that a solution may take for a test.

    slowest_seconds: CPU seconds that the reference takes for its slowest test

    This is Kattis' rule for problem packages: 5 times the slowest accepted submission and no less than a second
    (problemtools, time_multiplier and the floor of its time limits). It is never more than the suite's own limit.
    """
    return round(min(max(_REFERENCE_FACTOR * slowest_seconds, _MIN_SECONDS), limits.wall_seconds), 3)


def unwrap_expected_values(suite: Suite) -> Suite:
    """Return the suite with each expected value taken out of its list of one element."""
    values = [parse_json(case.expected, "an output")[0] for case in suite.cases]
    cases = [Case(case.input, dump_json(value, "an output")) for case, value in zip(suite.cases, values, strict=True)]
    return Suite(cases, entry_point=suite.entry_point, checker=suite.checker, limits=suite.limits)


def find_reference(problem: Problem, solutions: Sequence[Program], sandbox: MeteredSandbox) -> ReferenceRecord:
    """Judge the solutions until one passes. Raises SandboxError if the sandbox fails."""
    # One interpretation applies to the whole problem: a solution must pass all tests under it.
    if problem.wrapping is Wrapping.UNDECIDED:
        readings = [(Wrapping.KEPT, problem.tests), (Wrapping.REMOVED, unwrap_expected_values(problem.tests))]
    else:
        readings = [(problem.wrapping, problem.tests)]
    causes: list[str] = []
    failures: list[CaseFailure] = []
    for index, solution in enumerate(solutions):
        for wrapping, suite in readings:
            judgement = sandbox.judge(solution, suite)
            if judgement.accepted:
                return ReferenceRecord(
                    passing_index=index,
                    wrapping=wrapping,
                    causes=tuple(causes),
                    cpu_seconds=cpu_seconds(judgement),
                    slowest_seconds=max(case.cpu_seconds for case in judgement.cases),
                    spent_cpu_seconds=sandbox.spent_seconds,
                )
        causes.append(failure_cause(judgement))
        failures.append(first_failure(index, judgement))
    return ReferenceRecord(None, problem.wrapping, tuple(causes), 0.0, 0.0, sandbox.spent_seconds, tuple(failures))
