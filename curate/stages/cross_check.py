"""The execution of further solutions, to find tests with several correct outputs or a wrong expected output.

If solutions accepted by the source print different outputs on a test, it probably has several correct outputs. If no
solution passes, but most print the same output, the expected output is probably wrong.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from curate.json_records import json_key, omit_if_default
from curate.judging import CaseFailure, MeteredSandbox, collect_outputs
from curate.stage import BuildRow, OpenSandbox, ProblemStage
from curate.stages.verify import NO_REFERENCE, VerificationStage, get_judged_suite, get_reference_index
from sandbox import Judgement, Program, Suite, Verdict

_SECONDS = 60.0  # wall-time budget for all tests of one solution; tests after it are ignored
# Maximum number of tests on which outputs are compared. Few suffice, since a problem usually has several wrong tests.
_MAX_COMPARED = 10
_MAX_PIVOTS = 3  # maximum number of solutions whose outputs are compared with those of all others

SolutionsByIndex = Mapping[int, Program]  # solutions by their index among the candidates


@dataclass(frozen=True, slots=True)
class CrossCheckRecord:
    """The results of a problem's other solutions.

    n_passing          number of other solutions that also pass all tests
    n_dissenting       number of solutions that pass at least half of the tests, with unexpected outputs (but no errors)
                       on the others
    n_wrong_tests      number of tests on which most solutions agree with each other but not with the expected output,
                       among the first ones that most of them fail; 0 if a solution passes
    n_executed         number of executed solutions
    spent_cpu_seconds  CPU time of all executed programs
    failures           unexpected outputs of solutions on one test: the test with most dissenting solutions or, if no
                       solution passes, the first wrong test; empty if there is neither
    """

    n_passing: int = 0
    n_dissenting: int = 0
    n_wrong_tests: int = 0
    n_executed: int = field(default=0, metadata=json_key("n_asked"))
    spent_cpu_seconds: float = field(default=0.0, metadata=json_key("spent_seconds"))
    failures: tuple[CaseFailure, ...] = omit_if_default(())


class CrossCheckStage(ProblemStage[CrossCheckRecord]):
    """The execution of further solutions of each problem.

    With a reference, the stage executes up to `others` further solutions. Without one, it executes the failed solutions
    again, because the tests may be wrong.
    """

    name = "cross-check"
    rejection_name = "verify"
    record_type = CrossCheckRecord
    includes_rejected = True

    def __init__(self, verify: VerificationStage, *, others: int) -> None:
        self._verify, self._others = verify, others
        self.seed: int = verify.seed

    @property
    def options(self) -> Mapping[str, Any]:
        return {"cross_checks": self._others}

    def key(self, row: BuildRow) -> str | None:
        if row.rejection is not None:
            return self._verify.key(row) if row.rejection.reason == NO_REFERENCE else None
        return self._verify.key(row) if row.problem.verified and self._others else None

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> CrossCheckRecord:
        metered = MeteredSandbox(sandbox(self.seed))
        solutions = dict(enumerate(self._verify.list_candidates(row.problem)))
        suite = get_judged_suite(row.problem)
        budget = min(_SECONDS, suite.limits.budget_seconds or _SECONDS)
        suite = replace(suite, limits=replace(suite.limits, budget_seconds=budget))
        reference = get_reference_index(row.problem)
        if reference is None:
            record = _count_wrong_tests(_take_first(solutions, self._verify.tries), suite, metered)
        else:
            del solutions[reference]
            record = _count_agreeing(_take_first(solutions, self._others), suite, metered)
        return replace(record, spent_cpu_seconds=round(metered.spent_seconds, 6))

    def apply_record(self, row: BuildRow, record: CrossCheckRecord) -> BuildRow:
        if row.problem.verified:
            row = row.update(
                n_references=row.problem.n_references + record.n_passing, multi_answer_suspect=record.n_dissenting > 0
            )
            if record.n_dissenting:
                share = f"{record.n_dissenting} of {record.n_executed} further solutions"
                row = replace(row, suspicion=f"{share} give unexpected answers to some tests")
        elif row.rejection is not None and record.n_wrong_tests:
            more = f"; at {record.n_wrong_tests} tests most of them agree on another answer than the expected one"
            rejection = replace(row.rejection, detail=row.rejection.detail + more, cause="wrong_tests")
            row = replace(row, rejection=rejection)
        return replace(row, failures=record.failures or row.failures)

    def cpu_seconds(self, record: CrossCheckRecord) -> float:
        return record.spent_cpu_seconds


def _take_first(solutions: SolutionsByIndex, n: int) -> SolutionsByIndex:
    return dict(islice(solutions.items(), n))


def _judge_all(solutions: SolutionsByIndex, suite: Suite, sandbox: MeteredSandbox) -> dict[int, Judgement]:
    pairs = [(solution, suite) for solution in solutions.values()]
    return dict(zip(solutions, sandbox.judge_many(pairs, run_all=True), strict=True))


def _find_wrong_answers(judgements: Mapping[int, Judgement]) -> list[dict[int, CaseFailure]]:
    """Return, for each solution, its failures with the verdict wrong_answer, by test index."""
    return [
        {
            test: CaseFailure(solution, test, case.verdict, case.detail)
            for test, case in enumerate(judgement.cases)
            if case.verdict is Verdict.WRONG_ANSWER
        }
        for solution, judgement in judgements.items()
    ]


def _count_agreeing(solutions: SolutionsByIndex, suite: Suite, sandbox: MeteredSandbox) -> CrossCheckRecord:
    """Count the solutions that pass all tests, and the solutions with outputs different from the reference."""
    judgements = _judge_all(solutions, suite, sandbox)
    dissenting = _find_wrong_answers({index: judged for index, judged in judgements.items() if _is_dissent(judged)})
    counts = Counter(test for wrong in dissenting for test in wrong)
    disputed = min(counts, key=lambda test: (-counts[test], test), default=None)
    return CrossCheckRecord(
        n_passing=sum(judgement.pass_rate == 1 for judgement in judgements.values()),
        n_dissenting=len(dissenting),
        n_executed=len(solutions),
        failures=tuple(wrong[disputed] for wrong in dissenting if disputed in wrong),
    )


def _is_dissent(judgement: Judgement) -> bool:
    verdicts = [case.verdict for case in judgement.cases]
    accepted, wrong = verdicts.count(Verdict.ACCEPTED), verdicts.count(Verdict.WRONG_ANSWER)
    return accepted + wrong == judgement.n_cases and judgement.n_cases / 2 <= accepted < judgement.n_cases


def _count_wrong_tests(solutions: SolutionsByIndex, suite: Suite, sandbox: MeteredSandbox) -> CrossCheckRecord:
    """Count the tests on which most of these failed solutions have the same unexpected output."""
    if len(solutions) < 2:
        return CrossCheckRecord()
    failures = dict(zip(solutions, _find_wrong_answers(_judge_all(solutions, suite, sandbox)), strict=True))
    counts = Counter(test for by_test in failures.values() for test in by_test)
    disputed = sorted(test for test, n in counts.items() if n > len(solutions) / 2)[:_MAX_COMPARED]
    wrong: set[str] = set()
    if disputed:
        compared = replace(suite, cases=tuple(suite.cases[test] for test in disputed))
        for pivot in sorted(solutions, key=lambda index: -len(failures[index].keys() & set(disputed)))[:_MAX_PIVOTS]:
            wrong |= _find_wrong_tests(pivot, solutions, compared, sandbox)
    first = next((test for test in disputed if suite.cases[test].input in wrong), None)
    return CrossCheckRecord(
        n_wrong_tests=len(wrong),
        n_executed=len(solutions),
        failures=tuple(by_test[first] for by_test in failures.values() if first in by_test),
    )


def _find_wrong_tests(pivot: int, solutions: SolutionsByIndex, suite: Suite, sandbox: MeteredSandbox) -> set[str]:
    """Return the inputs on which most solutions have the same unexpected output as the pivot.

    pivot: index of the solution with which the others are compared
    """
    judged_pivot = zip(suite.cases, sandbox.judge(solutions[pivot], suite, run_all=True).cases, strict=False)
    failed = [case for case, judged in judged_pivot if judged.verdict is Verdict.WRONG_ANSWER]
    if suite.assertions is not None:  # cases without an expected value are statements, which have no output
        failed = [case for case in failed if case.expected]
    cases = tuple(collect_outputs(solutions[pivot], (case.input for case in failed), suite, sandbox))
    if not cases:
        return set()
    n_agreeing = Counter(case.input for case in cases)
    others = {index: solution for index, solution in solutions.items() if index != pivot}
    for judgement in _judge_all(others, replace(suite, cases=cases), sandbox).values():
        judged_cases = zip(cases, judgement.cases, strict=False)
        n_agreeing.update(case.input for case, judged in judged_cases if judged.verdict is Verdict.ACCEPTED)
    return {text for text, n in n_agreeing.items() if n > len(solutions) / 2}
