"""The measurement of test strength, and the rejection of problems with weak tests."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from curate.build_state import BuildState
from curate.judging import MeteredSandbox
from curate.manifest import StrengthSummary
from curate.stage import BuildRow, OpenSandbox, ProblemStage, compute_fingerprint
from curate.strength.measurement import StrengthRecord, is_measurable, measure


class StrengthStage(ProblemStage[StrengthRecord]):
    """A stage that measures the share of each reference's mutants that the tests reject.

    max_count  maximum number of mutants per reference; 0: no measurement
    min_share  minimum share of mutants that the tests must reject; None: any. Unmeasured problems stay
    """

    name = "measure the tests"
    rejection_name = "strength"
    record_type = StrengthRecord

    def __init__(self, *, max_count: int, min_share: float | None, seed: int) -> None:
        self._max_count, self._min_share = max_count, min_share
        self.seed: int = seed

    @property
    def options(self) -> Mapping[str, Any]:
        return {"mutants": self._max_count, "min_test_strength": self._min_share, "seed": self.seed}

    def key(self, row: BuildRow) -> str | None:
        problem = row.problem
        if not self._max_count or not is_measurable(problem):
            return None
        reference = problem.reference and asdict(problem.reference)
        return compute_fingerprint(
            problem.tests.to_json(), reference, problem.n_public_tests, self._max_count, self.seed
        )

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> StrengthRecord:
        return measure(row.problem, MeteredSandbox(sandbox(self.seed)), max_count=self._max_count, seed=self.seed)

    def apply_record(self, row: BuildRow, record: StrengthRecord) -> BuildRow:
        if record.share is None:
            return row
        if self._min_share is not None and record.share < self._min_share:
            survivors = ", ".join(f"{kind} {n}" for kind, n in record.survivors)
            wrong = record.n_mutants - record.n_equivalent
            detail = f"{record.n_killed} of {wrong} wrong programs rejected; accepted: {survivors}"
            row = row.reject("strength", "weak_tests", detail)
        return row.update(
            test_strength=round(record.share, 4),
            n_mutants=record.n_mutants,
            n_mutants_killed=record.n_killed,
            n_mutants_equivalent=record.n_equivalent,
            strongest_tests=record.strongest,
        )

    def cpu_seconds(self, record: StrengthRecord) -> float:
        return record.spent_cpu_seconds

    def summarize(self, records: Iterable[StrengthRecord], build: BuildState) -> None:
        of_problems = list(records)
        survivors: Counter[str] = Counter()
        for record in of_problems:
            survivors.update(dict(record.survivors))
        measured = sum(record.share is not None for record in of_problems)
        build.outputs.test_strength = StrengthSummary(
            measured=measured,
            not_measured=len(of_problems) - measured,
            mutants=sum(record.n_mutants for record in of_problems),
            killed=sum(record.n_killed for record in of_problems),
            equivalent=sum(record.n_equivalent for record in of_problems),
            survivors=dict(sorted(survivors.items())),
        )
