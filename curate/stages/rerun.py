"""Run each reference a second time with another seed: a problem whose reference passed by luck is rejected."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from curate.build_state import BuildState
from curate.json_records import omit_if_default
from curate.problem import Problem, Rejection
from curate.stage import ProblemStage
from curate.stages.verify import VerificationStage
from curate.verification.failure import CaseFailure, first_failure
from curate.verification.metered_sandbox import cpu_seconds
from curate.verification.references import referee_trials, rerun_references
from sandbox import Verdict


@dataclass(frozen=True, slots=True)
class RerunRecord:
    """How the second run of a reference ended.

    cpu_seconds  CPU time of the reference over all tests
    failure      its first failure, if there is one
    trials       trials of the problem's referee, one for each test; empty if there are none
    """

    verdict: Verdict
    cpu_seconds: float
    failure: CaseFailure | None = omit_if_default(None)
    trials: tuple[str, ...] = omit_if_default(())


class RerunStage(ProblemStage[RerunRecord]):
    """Runs the references that the stage `verify` found."""

    name = "run again"
    rejection_name = "verify"
    record_type = RerunRecord
    journal_name = "second.jsonl"

    def __init__(self, verify: VerificationStage) -> None:
        self._verify = verify
        self._refereed: list[str] = []  # ids of problems

    @property
    def seed(self) -> int:
        """The seed of the second run."""
        return self._verify.seed + 1

    def on_read(self, problem: Problem) -> None:
        if problem.tests.referee is not None:
            self._refereed.append(problem.id)

    def ids(self, build: BuildState) -> Iterable[str]:
        """Return the problems that have a reference."""
        return filter(self._verify.records.__contains__, build.ids)

    def fingerprint(self, id: str, build: BuildState) -> str | None:
        return self._verify.fingerprint(id, build)

    def examine(self, ids: list[str], build: BuildState) -> Iterator[tuple[str, RerunRecord]]:
        with build.sandbox(seed=self.seed) as sandbox:
            for problem, judgement in rerun_references(map(build.load, ids), sandbox):
                place = self._verify.records[problem.id].passing_index
                failure = None if judgement.accepted or place is None else first_failure(place, judgement)
                yield (
                    problem.id,
                    RerunRecord(judgement.verdict, cpu_seconds(judgement), failure, referee_trials(problem, judgement)),
                )

    def rejection(self, id: str, record: RerunRecord, build: BuildState) -> Rejection | None:
        if record.verdict is Verdict.ACCEPTED:
            return None
        detail = f"accepted, then {record.verdict.value} with another seed"
        return Rejection(id, id.partition("/")[0], "verify", "flaky_reference", detail)

    def cpu_seconds(self, record: RerunRecord) -> float:
        return record.cpu_seconds

    def run(self, build: BuildState) -> None:
        super().run(build)
        if self._refereed:  # only their records are read whenever a problem is loaded
            build.add_update(self.records.select(self._refereed), _with_trials)


def _with_trials(problem: Problem, record: RerunRecord) -> Problem:
    return replace(problem, tests=problem.tests.with_trials(record.trials))
