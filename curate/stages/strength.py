"""Measure how many wrong programs the tests of verified problems reject; problems with weak tests can be rejected."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from curate.build_state import BuildState
from curate.json_records import from_json
from curate.manifest import StrengthSummary
from curate.problem import Problem, Rejection
from curate.stage import ProblemStage
from curate.stages.verify import VerificationStage
from curate.strength import measurement
from curate.strength.strength_record import StrengthRecord, summary


class StrengthStage(ProblemStage[StrengthRecord]):
    """Makes wrong programs from each reference and counts those that the tests reject.

    max_count  maximum number of wrong programs made from each reference; 0: nothing is measured
    min_share  minimum share of them that the tests must reject; None: no minimum. Unmeasured problems stay
    """

    name = "measure the tests"
    rejection_name = "strength"
    record_type = StrengthRecord
    journal_name = "strengths.jsonl"

    def __init__(self, verify: VerificationStage, *, max_count: int, min_share: float | None, seed: int) -> None:
        self._verify = verify
        self._most, self._min_share, self._seed = max_count, min_share, seed

    @property
    def options(self) -> Mapping[str, Any]:
        return {"mutants": self._most, "min_test_strength": self._min_share, "seed": self._seed}

    def ids(self, build: BuildState) -> Iterable[str]:
        """Return the problems that have a reference."""
        return filter(self._verify.records.__contains__, build.ids) if self._most else ()

    def fingerprint(self, id: str, build: BuildState) -> str | None:
        problem = build.load(id)
        if not measurement.is_measurable(problem):
            return None
        return measurement.fingerprint(problem, max_count=self._most, seed=self._seed)

    def examine(self, ids: list[str], build: BuildState) -> Iterator[tuple[str, StrengthRecord]]:
        with build.sandbox(seed=self._seed) as sandbox:
            problems = map(build.load, ids)
            for problem, strength in measurement.measure_strength(
                problems, sandbox, max_count=self._most, seed=self._seed
            ):
                yield problem.id, strength

    def apply_record(self, problem: Problem, record: StrengthRecord) -> Problem:
        if record.share is None:
            return problem
        return replace(
            problem,
            test_strength=round(record.share, 4),
            n_mutants=record.n_mutants,
            n_mutants_killed=record.n_killed,
            n_mutants_equivalent=record.n_equivalent,
            strongest_tests=record.strongest,
        )

    def rejection(self, id: str, record: StrengthRecord, build: BuildState) -> Rejection | None:
        if self._min_share is None or record.share is None or record.share >= self._min_share:
            return None
        survivors = ", ".join(f"{kind} {n}" for kind, n in record.survivors)
        wrong = record.n_mutants - record.n_equivalent
        detail = f"{record.n_killed} of {wrong} wrong programs rejected; accepted: {survivors}"
        return Rejection(id, id.partition("/")[0], "strength", "weak_tests", detail)

    def cpu_seconds(self, record: StrengthRecord) -> float:
        return record.spent_cpu_seconds

    def run(self, build: BuildState) -> None:
        super().run(build)
        build.outputs.test_strength = from_json(StrengthSummary, summary(self.records.values()))
