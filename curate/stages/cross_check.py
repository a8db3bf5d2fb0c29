"""Run further solutions, to find tests that have several right answers or a wrong expected answer."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from curate.build_state import BuildState
from curate.problem import Problem, Rejection
from curate.stage import ProblemStage
from curate.stages.verify import VerificationStage, reference_rejection
from curate.verification.cross_check import CrossCheckRecord, cross_check


class CrossCheckStage(ProblemStage[CrossCheckRecord]):
    """Executes further solutions of each problem that has solutions.

    If a problem has a reference, up to `others` further solutions are executed. If it has none, the solutions that
    failed are executed again, because it may be the tests that are wrong, rather than all of the solutions.
    """

    name = "cross-check"
    rejection_name = "verify"
    record_type = CrossCheckRecord
    journal_name = "opinions.jsonl"

    def __init__(self, verify: VerificationStage, *, others: int) -> None:
        self._verify, self._others = verify, others

    @property
    def options(self) -> Mapping[str, Any]:
        return {"cross_checks": self._others}

    def ids(self, build: BuildState) -> Iterable[str]:
        """Return all problems that have solutions, including those without a reference."""
        return self._verify.records

    def fingerprint(self, id: str, build: BuildState) -> str | None:
        asked = self._others or self._verify.records[id].passing_index is None
        return self._verify.fingerprint(id, build) if asked else None

    def examine(self, ids: list[str], build: BuildState) -> Iterator[tuple[str, CrossCheckRecord]]:
        with build.sandbox(seed=self._verify.seed) as sandbox:
            for problem, opinion in cross_check(
                map(build.load_original, ids),
                self._verify.records,
                sandbox,
                n_other_solutions=self._others,
                tries=self._verify.tries,
                languages=self._verify.languages,
            ):
                yield problem.id, opinion

    def apply_record(self, problem: Problem, record: CrossCheckRecord) -> Problem:
        if not problem.verified:
            return problem
        return replace(
            problem,
            n_references=problem.n_references + record.n_passing,
            multi_answer_suspect=record.n_dissenting > 0,
        )

    def rejection(self, id: str, record: CrossCheckRecord, build: BuildState) -> Rejection | None:
        """Return a more precise rejection of a problem without a reference."""
        finding = self._verify.records[id]
        return (
            None if finding.passing_index is not None else reference_rejection(build.load_original(id), finding, record)
        )

    def cpu_seconds(self, record: CrossCheckRecord) -> float:
        return record.spent_cpu_seconds
