"""Measure how many wrong programs the tests of verified problems reject; problems with weak tests can be rejected."""

from collections.abc import Iterable, Mapping
from typing import Any

from curate.build_state import BuildState
from curate.json_records import from_json
from curate.manifest import StrengthSummary
from curate.stage import BuildRow, OpenSandbox, ProblemStage
from curate.strength import measurement
from curate.strength.strength_record import StrengthRecord, summary
from curate.verification.metered_sandbox import MeteredSandbox


class StrengthStage(ProblemStage[StrengthRecord]):
    """Makes wrong programs from each reference and counts those that the tests reject.

    max_count  maximum number of wrong programs made from each reference; 0: nothing is measured
    min_share  minimum share of them that the tests must reject; None: no minimum. Unmeasured problems stay
    """

    name = "measure the tests"
    rejection_name = "strength"
    record_type = StrengthRecord

    def __init__(self, *, max_count: int, min_share: float | None, seed: int) -> None:
        self._most, self._min_share = max_count, min_share
        self.seed: int = seed

    @property
    def options(self) -> Mapping[str, Any]:
        return {"mutants": self._most, "min_test_strength": self._min_share, "seed": self.seed}

    def key(self, row: BuildRow) -> str | None:
        if not self._most or not measurement.is_measurable(row.problem):
            return None
        return measurement.fingerprint(row.problem, max_count=self._most, seed=self.seed)

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> StrengthRecord:
        metered = MeteredSandbox(sandbox(self.seed))
        return measurement.measure(row.problem, metered, max_count=self._most, seed=self.seed)

    def settle(self, row: BuildRow, record: StrengthRecord) -> BuildRow:
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
        build.outputs.test_strength = from_json(StrengthSummary, summary(list(records)))
