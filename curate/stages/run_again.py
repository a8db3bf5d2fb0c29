"""Run each reference a second time with another seed: a problem whose reference passed by luck is rejected."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from curate.ongoing_build import OngoingBuild
from curate.problem import Rejection
from curate.stage import ProblemStage
from curate.stages.verify import Verify
from curate.verification.metered import cpu_seconds
from curate.verification.references import run_again
from sandbox import Verdict


@dataclass(frozen=True, slots=True)
class Repeat:
    """How the second run of a reference ended, and its CPU time over all tests."""

    verdict: Verdict
    cpu_seconds: float


class RunAgain(ProblemStage[Repeat]):
    """Runs the references that the stage `verify` found."""

    name = "run again"
    word = "verify"
    record_type = Repeat
    journal = "second.jsonl"

    def __init__(self, verify: Verify) -> None:
        self._verify = verify

    def ids(self, build: OngoingBuild) -> Iterable[str]:
        """Return the problems that have a reference."""
        return filter(self._verify.records.__contains__, build.ids)

    def fingerprint(self, id: str, build: OngoingBuild) -> str | None:
        return self._verify.fingerprint(id, build)

    def examine(self, ids: list[str], build: OngoingBuild) -> Iterator[tuple[str, Repeat]]:
        with build.sandbox(seed=self._verify.seed + 1) as sandbox:
            for problem, judgement in run_again(map(build.load, ids), sandbox):
                yield problem.id, Repeat(judgement.verdict, cpu_seconds(judgement))

    def rejection(self, id: str, record: Repeat, build: OngoingBuild) -> Rejection | None:
        if record.verdict is Verdict.ACCEPTED:
            return None
        detail = f"accepted, then {record.verdict.value} with another seed"
        return Rejection(id, id.partition("/")[0], "verify", "flaky_reference", detail)

    def cpu_seconds(self, record: Repeat) -> float:
        return record.cpu_seconds
