"""Keep the evidence: for rows that verification rejects or suspects, the test and the answers that show why.

Records keep only the verdicts of tests, because outputs can be large. So the few solutions that are worth showing are
executed once more, on one test, for the problems whose verdict a reader may want to check.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from curate.build_state import Address, BuildState
from curate.dataset.evidence import EVIDENCE, EVIDENCE_COLUMNS, SUSPECT_REASON, EvidenceTest, evidence_row, sort_key
from curate.json_records import json_key, to_json
from curate.problem import Problem, Rejection
from curate.stage import BuildRow, OpenSandbox, ProblemStage, compute_fingerprint
from curate.stages.cross_check import CrossCheckStage
from curate.stages.rerun import FLAKY
from curate.stages.verify import VerificationStage, passing_index, suite_as_judged
from curate.text.printable import excerpt
from curate.verification.failures import CaseFailure, SolutionOutput
from curate.verification.metered_sandbox import MeteredSandbox
from curate.verification.program_outputs import collect_outputs
from sandbox import Program, Suite, Verdict
from sandbox.suite import INTERACTIVE

MAX_SHOWN = 3  # solutions that fail; more of them seldom say more


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """What some solutions of a problem did on one of its tests.

    test_index         place of the test in the suite
    outputs            the answers; that of the reference, if there is one, comes first
    spent_cpu_seconds  CPU time of everything that was executed
    """

    test_index: int = field(metadata=json_key("test"))
    outputs: tuple[SolutionOutput, ...] = field(metadata=json_key("answers"))
    spent_cpu_seconds: float = field(metadata=json_key("spent_seconds"))


class EvidenceStage(ProblemStage[EvidenceRecord]):
    """Fills the table `evidence`; it rejects no row.

    A row that verification rejected gets the test on which its solutions failed, and what they answered. So does a row
    that stays and whose tests may have several right answers. Every other rejected row gets its statement. The stage
    comes after all others, so that it executes nothing for rows that are rejected for another reason.
    """

    name = "evidence"
    record_type = EvidenceRecord
    includes_rejected = True

    def __init__(self, verify: VerificationStage, cross_check: CrossCheckStage) -> None:
        self._verify, self._cross_check = verify, cross_check
        self.seed: int = verify.seed

    def key(self, row: BuildRow) -> str | None:
        if not row.failures or (row.rejection is not None and row.rejection.stage != "verify"):
            return None
        return compute_fingerprint(self._verify.key(row), to_json(row.failures))

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> EvidenceRecord:
        flaky = row.rejection is not None and row.rejection.reason == FLAKY
        metered = MeteredSandbox(sandbox(self.seed + 1 if flaky else self.seed))
        candidates = self._verify.candidates(row.problem)
        record = gather_evidence(row.problem, row.failures[:MAX_SHOWN], candidates, metered)
        return replace(record, spent_cpu_seconds=round(metered.spent_seconds, 6))

    def cpu_seconds(self, record: EvidenceRecord) -> float:
        return record.spent_cpu_seconds

    def summarize(self, records: Iterable[EvidenceRecord], build: BuildState) -> None:
        build.outputs.tables[EVIDENCE] = self._rows(build), EVIDENCE_COLUMNS

    def _rows(self, build: BuildState) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table, sorted."""
        rejected = (self._rejected(address, rejection, build) for address, rejection in build.rejections())
        suspects = (self._suspected(address, build) for address in build.problems() if build.is_examined(address))
        found = (row for row in rejected if row is not None), (row for row in suspects if row is not None)
        yield from heapq.merge(*found, key=sort_key)

    def _rejected(self, address: Address, rejection: Rejection, build: BuildState) -> dict[str, Any] | None:
        """Return the row for a rejection; None if not even the statement is known."""
        if not build.is_problem(address):
            return evidence_row(rejection, rejection.statement) if rejection.statement else None
        if not build.is_examined(address):
            return evidence_row(rejection, build.problem_as_read(address).statement)
        problem = build.load(address).problem
        return evidence_row(rejection, problem.statement, self._shown(address, problem, build))

    def _suspected(self, address: Address, build: BuildState) -> dict[str, Any] | None:
        opinion = build.record(self._cross_check, address)
        if opinion is None or build.record(self, address) is None:
            return None
        detail = (
            f"{opinion.n_dissenting} of {opinion.n_executed} further solutions give unexpected answers to some tests"
        )
        problem = build.load(address).problem
        suspicion = Rejection(problem.id, problem.source, "verify", SUSPECT_REASON, detail)
        return evidence_row(suspicion, problem.statement, self._shown(address, problem, build))

    def _shown(self, address: Address, problem: Problem, build: BuildState) -> EvidenceTest | None:
        evidence = build.record(self, address)
        if evidence is None:
            return None
        programs = self._verify.candidates(problem)
        answers = tuple((programs[answer.solution_index], answer) for answer in evidence.outputs)
        return EvidenceTest(suite_as_judged(problem), evidence.test_index, answers)


def gather_evidence(
    problem: Problem, failures: tuple[CaseFailure, ...], candidates: Sequence[Program], sandbox: MeteredSandbox
) -> EvidenceRecord:
    """Execute solutions, and the reference if there is one, on the test on which the solutions fail.

    failures    failures on one test
    candidates  the solutions that may be executed

    Raises SandboxError if the sandbox fails.
    """
    test = failures[0].test_index
    outputs = [SolutionOutput(failure.solution_index, failure.verdict, failure.detail, None) for failure in failures]
    reference = passing_index(problem)
    if reference is not None and reference not in {failure.solution_index for failure in failures}:
        outputs.insert(0, SolutionOutput(reference, Verdict.ACCEPTED, "", None))
    suite = suite_as_judged(problem)
    complete = tuple(
        replace(answer, output=_output(answer, candidates[answer.solution_index], test, suite, sandbox))
        for answer in outputs
    )
    return EvidenceRecord(test, complete, 0.0)


def _output(answer: SolutionOutput, program: Program, test: int, suite: Suite, sandbox: MeteredSandbox) -> str | None:
    case = suite.cases[test]
    # A program that fails in another way has no answer, and a conversation and statements that raise have no output.
    if answer.verdict not in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER):
        return None
    if suite.checker == INTERACTIVE or (suite.assertions is not None and not case.expected):
        return None
    observed = next(collect_outputs(program, [case.input], suite, partial(sandbox.run, limits=suite.limits)), None)
    return None if observed is None else excerpt(observed.expected)
