"""The evidence for rows that verification rejects or suspects: a test, and outputs of solutions on it.

Because records of other stages omit outputs, which can be large, this stage executes a few solutions again on one test.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from curate.build_state import Address, BuildState
from curate.dataset.evidence import (
    EVIDENCE,
    EVIDENCE_COLUMNS,
    SUSPECT_REASON,
    EvidenceTest,
    SolutionOutput,
    get_sort_key,
    make_evidence_row,
)
from curate.json_records import json_key, to_json
from curate.judging import MeteredSandbox, collect_outputs
from curate.problem import Rejection
from curate.stage import BuildRow, OpenSandbox, ProblemStage, compute_fingerprint
from curate.stages.rerun import FLAKY
from curate.stages.verify import VerificationStage, get_judged_suite, get_reference_index
from curate.text.printable import shorten_text
from sandbox import Program, Suite, Verdict
from sandbox.suite import INTERACTIVE

MAX_SHOWN = 3  # failed solutions per row


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """The outputs of some solutions on one test.

    test_index         index of the test in the suite
    outputs            outputs of the solutions, beginning with the reference
    spent_cpu_seconds  CPU time of all executed programs
    """

    test_index: int = field(metadata=json_key("test"))
    outputs: tuple[SolutionOutput, ...] = field(metadata=json_key("answers"))
    spent_cpu_seconds: float = field(metadata=json_key("spent_seconds"))


class EvidenceStage(ProblemStage[EvidenceRecord]):
    """A stage that fills the table `evidence` and rejects no row.

    For rows that verification rejects or suspects, the table has a test on which solutions failed, and their outputs.
    For all other rejected rows, it has only the statement. The stage runs last, so it executes nothing for rows that
    other stages reject.
    """

    name = "evidence"
    record_type = EvidenceRecord
    includes_rejected = True

    def __init__(self, verify: VerificationStage) -> None:
        self._verify = verify
        self.seed: int = verify.seed

    def key(self, row: BuildRow) -> str | None:
        if not row.failures or (row.rejection is not None and row.rejection.stage != "verify"):
            return None
        return compute_fingerprint(self._verify.key(row), to_json(row.failures))

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> EvidenceRecord:
        """Execute the failed solutions, and the reference if there is one, on the test on which they failed."""
        flaky = row.rejection is not None and row.rejection.reason == FLAKY
        metered = MeteredSandbox(sandbox(self.seed + 1 if flaky else self.seed))
        failures = row.failures[:MAX_SHOWN]
        answers = [
            SolutionOutput(failure.solution_index, failure.verdict, failure.detail, None) for failure in failures
        ]
        reference = get_reference_index(row.problem)
        if reference is not None and reference not in {failed.solution_index for failed in failures}:
            answers.insert(0, SolutionOutput(reference, Verdict.ACCEPTED, "", None))
        suite, test = get_judged_suite(row.problem), failures[0].test_index
        programs = self._verify.list_candidates(row.problem)
        outputs = tuple(
            replace(answer, output=_collect_output(answer, programs[answer.solution_index], test, suite, metered))
            for answer in answers
        )
        return EvidenceRecord(test, outputs, round(metered.spent_seconds, 6))

    def cpu_seconds(self, record: EvidenceRecord) -> float:
        return record.spent_cpu_seconds

    def summarize(self, records: Iterable[EvidenceRecord], build: BuildState) -> None:
        build.outputs.tables[EVIDENCE] = self._iter_rows(build), EVIDENCE_COLUMNS

    def _iter_rows(self, build: BuildState) -> Iterator[dict[str, Any]]:
        rejected = (
            self._build_rejected_row(address, rejection, build) for address, rejection in build.iter_rejections()
        )
        suspects = (self._build_suspected_row(address, build) for address in build.iter_examined(self))
        yield from heapq.merge(filter(None, rejected), filter(None, suspects), key=get_sort_key)

    def _build_rejected_row(self, address: Address, rejection: Rejection, build: BuildState) -> dict[str, Any] | None:
        """Return the row for a rejection; None if the statement is unknown."""
        if not build.is_problem(address):
            return make_evidence_row(rejection, rejection.statement) if rejection.statement else None
        return self._build_row(rejection, build.load(address), build.load_record(self, address))

    def _build_suspected_row(self, address: Address, build: BuildState) -> dict[str, Any] | None:
        """Return the row for a kept problem; None without a suspicion."""
        row = build.load(address)
        if not row.suspicion:
            return None
        suspicion = Rejection(row.problem.id, row.problem.source, "verify", SUSPECT_REASON, row.suspicion)
        return self._build_row(suspicion, row, build.load_record(self, address))

    def _build_row(self, rejection: Rejection, row: BuildRow, record: EvidenceRecord | None) -> dict[str, Any]:
        if record is None:
            return make_evidence_row(rejection, row.problem.statement)
        programs = self._verify.list_candidates(row.problem)
        answers = tuple((programs[answer.solution_index], answer) for answer in record.outputs)
        test = EvidenceTest(get_judged_suite(row.problem), record.test_index, answers)
        return make_evidence_row(rejection, row.problem.statement, test)


def _collect_output(
    answer: SolutionOutput, program: Program, test: int, suite: Suite, sandbox: MeteredSandbox
) -> str | None:
    case = suite.cases[test]
    # Errors, interactions and failed statements have no output.
    if answer.verdict not in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER):
        return None
    if suite.checker == INTERACTIVE or (suite.assertions is not None and not case.expected):
        return None
    observed = next(collect_outputs(program, [case.input], suite, sandbox), None)
    return None if observed is None else shorten_text(observed.expected)
