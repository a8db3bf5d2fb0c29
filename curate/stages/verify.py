"""The search for a reference: a solution that passes every test. Problems without a reference are rejected.

The stage tries a limited number of solutions, the cheapest first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from curate.build_state import BuildState
from curate.json_records import json_key, omit_if_default
from curate.judging import CaseFailure, MeteredSandbox, classify_failure, find_first_failure, sum_cpu_seconds
from curate.problem import Problem, Wrapping
from curate.reading.solutions import select_candidates
from curate.reading.values import dump_json, parse_json
from curate.stage import BuildRow, OpenSandbox, ProblemStage, compute_fingerprint
from sandbox import Case, Limits, Program, Suite, Verdict

NO_REFERENCE = "reference_fails"  # reason of rejections
_REFERENCE_FACTOR, _MIN_SECONDS = 5.0, 1.0


@dataclass(frozen=True, slots=True)
class ReferenceRecord:
    """The result of executing a problem's solutions.

    passing_index      index of the passing solution among the candidates; None if no tried solution passed
    wrapping           interpretation of expected values in one-element lists
    causes             causes of the failures of the earlier solutions, in order
    cpu_seconds        CPU time of the passing solution over all tests
    slowest_seconds    CPU time of the passing solution at its slowest test
    spent_cpu_seconds  CPU time of all executed programs
    failures           the first failure of each solution, in order; empty if a solution passed
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
    languages  languages of solutions to execute
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
        if problem.solutions is None or not problem.tests.cases:
            return None
        solutions = [(s.source, s.language) for s in self.list_candidates(problem)[: self.tries]]
        tests = problem.tests.with_trials(()).to_json()
        return compute_fingerprint(tests, problem.wrapping.value, solutions, self.seed)

    def list_candidates(self, problem: Problem) -> Sequence[Program]:
        """Return the solutions in the allowed languages, in the order of execution."""
        return select_candidates(problem, self.languages)

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> ReferenceRecord:
        solutions = self.list_candidates(row.problem)[: self.tries]
        return find_reference(row.problem, solutions, MeteredSandbox(sandbox(self.seed)))

    def apply_record(self, row: BuildRow, record: ReferenceRecord) -> BuildRow:
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
            reference=self.list_candidates(row.problem)[record.passing_index],
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
    """Return the failures on one test: the test with most wrong answers or, without wrong answers, most failures."""
    wrong = [failure for failure in failures if failure.verdict is Verdict.WRONG_ANSWER]
    counts = Counter(failure.test_index for failure in wrong or failures)
    test = min(counts, key=lambda test: (-counts[test], test), default=None)
    return tuple(failure for failure in wrong or failures if failure.test_index == test)


def get_reference_index(problem: Problem) -> int | None:
    """Return the index of the reference among the candidates; None without a reference."""
    return problem.n_tries - 1 if problem.verified else None


def get_judged_suite(problem: Problem) -> Suite:
    """Return the tests in the form of the latest judgement: unwrapped if no solution passed in either form."""
    undecided = problem.wrapping is Wrapping.UNDECIDED
    return unwrap_expected_values(problem.tests) if undecided else problem.tests


def calibrate_limit(slowest_seconds: float, limits: Limits) -> float:
    """Return the wall-time limit of a test in seconds, at most that of the suite.

    slowest_seconds: CPU seconds of the reference at its slowest test

    The limit is 5 times the slowest accepted submission and at least one second. This is Kattis' rule for problem
    packages (problemtools: time_multiplier and the floor of its time limits).
    """
    return round(min(max(_REFERENCE_FACTOR * slowest_seconds, _MIN_SECONDS), limits.wall_seconds), 3)


def unwrap_expected_values(suite: Suite) -> Suite:
    """Return the suite with expected values taken out of their one-element lists."""
    values = [parse_json(case.expected, "an output")[0] for case in suite.cases]
    cases = [Case(case.input, dump_json(value, "an output")) for case, value in zip(suite.cases, values, strict=True)]
    return Suite(cases, entry_point=suite.entry_point, checker=suite.checker, limits=suite.limits)


def find_reference(problem: Problem, solutions: Sequence[Program], sandbox: MeteredSandbox) -> ReferenceRecord:
    """Judge the solutions until one passes. Raises SandboxError if the sandbox fails."""
    # A solution must pass all tests under the same interpretation.
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
                    cpu_seconds=sum_cpu_seconds(judgement),
                    slowest_seconds=max(case.cpu_seconds for case in judgement.cases),
                    spent_cpu_seconds=sandbox.spent_seconds,
                )
        causes.append(classify_failure(judgement))
        failures.append(find_first_failure(index, judgement))
    return ReferenceRecord(None, problem.wrapping, tuple(causes), 0.0, 0.0, sandbox.spent_seconds, tuple(failures))
