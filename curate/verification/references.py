"""Find references: solutions that pass every test twice, so that problem, tests and solution agree with each other.

A limited number of solutions is tried, the cheapest first, until one passes. The second run has another seed (hash
order and `random` differ), so that solutions that pass by luck are detected.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from curate.json_records import json_key, omit_if_default
from curate.problem import Problem, Wrapping
from curate.reading.solutions import candidate_solutions
from curate.reading.values import dump_json, parse_json
from curate.verification.failure import CaseFailure, first_failure
from curate.verification.failure_cause import failure_cause
from curate.verification.metered_sandbox import MeteredSandbox, cpu_seconds, judge_for_build
from curate.verification.retries import map_with_retries
from sandbox import Case, Judgement, Limits, Program, Sandbox, Suite

_REFERENCE_FACTOR, _MIN_SECONDS = 5.0, 1.0


@dataclass(frozen=True, slots=True)
class ReferenceRecord:
    """The result of executing a problem's solutions.

    passing_index      place among the candidates of the solution that passed; None: no solution that was tried passed
    wrapping           how to read expected values in a list of one element
    causes             causes of the failures of the solutions before it, in order (failure_cause.py)
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
        """Number of solutions executed."""
        return len(self.causes) + (self.passing_index is not None)


def fingerprint(problem: Problem, *, tries: int, languages: Sequence[str], seed: int) -> str:
    """Return a hash of everything a ReferenceRecord depends on: the tests, the solutions, and how they are run."""
    solutions = [(s.source, s.language) for s in candidate_solutions(problem, languages)[:tries]]
    content = [problem.tests.to_json(), problem.wrapping.value, solutions, seed]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def find_references(
    problems: Iterable[Problem], sandbox: Sandbox, *, tries: int, languages: Sequence[str]
) -> Iterator[tuple[Problem, ReferenceRecord]]:
    """Execute each problem's solutions until one passes or `tries` have failed; yield findings as they become known.

    languages  languages of the solutions that may be executed

    Raises CurateError if the sandbox fails again and again. Nothing is then known about the remaining problems.
    """

    def find(problem: Problem) -> ReferenceRecord:
        return _find_reference(problem, candidate_solutions(problem, languages)[:tries], MeteredSandbox(sandbox))

    return map_with_retries(problems, find, sandbox)


def rerun_references(problems: Iterable[Problem], sandbox: Sandbox) -> Iterator[tuple[Problem, Judgement]]:
    """Run the reference of each verified problem again. Raises CurateError as find_references does."""

    def judge(problem: Problem) -> Judgement:
        assert problem.reference is not None
        return judge_for_build(
            sandbox, problem.reference, problem.tests, keep_outputs=problem.tests.referee is not None
        )

    return map_with_retries(problems, judge, sandbox)


def referee_trials(problem: Problem, judgement: Judgement) -> tuple[str, ...]:
    """Return what the reference printed or said in each case, as trials of the referee; empty if there are none.

    An output that is as expected is left out, as it would show no more than the expected one.
    """
    if not judgement.accepted or not judgement.outputs:
        return ()
    pairs = zip(problem.tests.cases, judgement.outputs, strict=True)
    outputs = tuple("" if output.strip() == case.expected.strip() else output for case, output in pairs)
    return outputs if any(outputs) else ()


def final_suite(problem: Problem, record: ReferenceRecord) -> Suite:
    """Return the tests as they were read when the problem's solutions were judged for the last time.

    problem: the problem as it was read from its source
    """
    undecided = record.passing_index is None and problem.wrapping is Wrapping.UNDECIDED
    return unwrap_expected_values(problem.tests) if undecided or record.wrapping is Wrapping.REMOVED else problem.tests


def apply_record(problem: Problem, record: ReferenceRecord, *, languages: Sequence[str]) -> Problem:
    """Return the problem, updated from the finding; `languages` must be the same as when the finding was made."""
    if record.passing_index is None:
        return problem
    return replace(
        problem,
        tests=final_suite(problem, record),
        wrapping=record.wrapping,
        verified=True,
        reference=candidate_solutions(problem, languages)[record.passing_index],
        n_tries=record.n_tries,
        n_references=1,
        cpu_seconds=record.cpu_seconds,
        slowest_cpu_seconds=record.slowest_seconds,
        time_limit_seconds=calibrate_limit(record.slowest_seconds, problem.tests.limits),
    )


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


def _find_reference(problem: Problem, solutions: Sequence[Program], sandbox: MeteredSandbox) -> ReferenceRecord:
    # One way of reading holds for the whole problem: a solution must pass all tests when all are read in this way.
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
