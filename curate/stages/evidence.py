"""Keep the evidence: for rows that verification rejects or suspects, the test and the answers that show why."""

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from curate.build_state import BuildState
from curate.dataset.evidence import EVIDENCE, EVIDENCE_COLUMNS, SUSPECT_REASON, EvidenceTest, evidence_row, sort_key
from curate.json_records import to_json
from curate.problem import Problem, Rejection
from curate.reading.solutions import candidate_solutions
from curate.stage import ProblemStage, compute_fingerprint
from curate.stages.cross_check import CrossCheckStage
from curate.stages.rerun import RerunStage
from curate.stages.verify import VerificationStage
from curate.verification.evidence import EvidenceRecord, choose_informative_failures, gather_evidence
from curate.verification.failure import CaseFailure
from curate.verification.references import final_suite


class EvidenceStage(ProblemStage[EvidenceRecord]):
    """Fills the table `evidence`; it rejects no row.

    A row that verification rejected gets the test on which its solutions failed, and what they answered. So does a row
    that stays and whose tests may have several right answers. Every other rejected row gets its statement. The stage
    comes after all others, so that it executes nothing for rows that are rejected for another reason.
    """

    name = "evidence"
    record_type = EvidenceRecord

    def __init__(self, verify: VerificationStage, cross_check: CrossCheckStage, run_again: RerunStage) -> None:
        self._verify, self._cross_check, self._run_again = verify, cross_check, run_again

    def ids(self, build: BuildState) -> Iterable[str]:
        """Return the problems whose solutions were executed, except those that a later stage rejected."""
        for id in self._verify.records:
            rejection = build.rejections_by_id.get(id)
            if rejection is None or rejection.stage == "verify":
                yield id

    def fingerprint(self, id: str, build: BuildState) -> str | None:
        failures = self._failures(id, build)
        return compute_fingerprint(self._verify.fingerprint(id, build), to_json(failures)) if failures else None

    def examine(self, ids: list[str], build: BuildState) -> Iterator[tuple[str, EvidenceRecord]]:
        flaky = [id for id in ids if self._failed_again(id, build)]
        others = [id for id in ids if not self._failed_again(id, build)]
        for seed, group in ((self._verify.seed, others), (self._run_again.seed, flaky)):
            if group:
                with build.sandbox(seed=seed) as sandbox:
                    for problem, evidence in gather_evidence(
                        map(build.load_original, group),
                        {id: self._failures(id, build) for id in group},
                        self._verify.records,
                        sandbox,
                        languages=self._verify.languages,
                    ):
                        yield problem.id, evidence

    def cpu_seconds(self, record: EvidenceRecord) -> float:
        return record.spent_cpu_seconds

    def run(self, build: BuildState) -> None:
        super().run(build)
        build.outputs.tables[EVIDENCE] = self._rows(build), EVIDENCE_COLUMNS

    def _failures(self, id: str, build: BuildState) -> tuple[CaseFailure, ...]:
        """Return the failures on the test that says most about a problem; none if there is nothing to show."""
        if self._failed_again(id, build):
            repeat = self._run_again.records.get(id)
            return (repeat.failure,) if repeat and repeat.failure else ()
        finding, opinion = self._verify.records[id], self._cross_check.records.get(id)
        if opinion and opinion.failures:
            return opinion.failures
        return choose_informative_failures(finding.failures)

    def _failed_again(self, id: str, build: BuildState) -> bool:
        """Say whether the problem has a reference that failed in the second run."""
        return self._verify.records[id].passing_index is not None and id in build.rejections_by_id

    def _rows(self, build: BuildState) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table, sorted."""
        rejected = (self._rejected(rejection, build) for rejection in build.rejections)
        stays = sorted(id for id in self.records if id not in build.rejections_by_id)
        suspects = (self._suspected(build.load_original(id)) for id in stays)
        yield from heapq.merge((row for row in rejected if row is not None), suspects, key=sort_key)

    def _rejected(self, rejection: Rejection, build: BuildState) -> dict[str, Any] | None:
        """Return the row for a rejection; None if not even the statement is known."""
        if build.rejections_by_id.get(rejection.id) == rejection:
            problem = build.load_original(rejection.id)
            return evidence_row(rejection, problem.statement, self._shown(problem))
        statement = build.statement_of(rejection)
        return evidence_row(rejection, statement) if statement else None

    def _suspected(self, problem: Problem) -> dict[str, Any]:
        opinion = self._cross_check.records[problem.id]
        detail = (
            f"{opinion.n_dissenting} of {opinion.n_executed} further solutions give unexpected answers to some tests"
        )
        return evidence_row(
            Rejection(problem.id, problem.source, "verify", SUSPECT_REASON, detail),
            problem.statement,
            self._shown(problem),
        )

    def _shown(self, problem: Problem) -> EvidenceTest | None:
        evidence = self.records.get(problem.id)
        if evidence is None:
            return None
        programs = candidate_solutions(problem, self._verify.languages)
        answers = tuple((programs[answer.solution_index], answer) for answer in evidence.outputs)
        return EvidenceTest(final_suite(problem, self._verify.records[problem.id]), evidence.test_index, answers)
