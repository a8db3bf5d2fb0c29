"""Run each reference a second time with another seed: a problem whose reference passed by luck is rejected."""

from dataclasses import dataclass, replace

from curate.json_records import omit_if_default
from curate.judging import CaseFailure, MeteredSandbox, first_failure
from curate.problem import Problem
from curate.stage import BuildRow, OpenSandbox, ProblemStage
from curate.stages.verify import VerificationStage, passing_index
from sandbox import Judgement, Verdict

FLAKY = "flaky_reference"  # the reason of its rejections


@dataclass(frozen=True, slots=True)
class RerunRecord:
    """The result of the second run of a reference.

    cpu_seconds  CPU time of the reference over all tests
    failure      its first failure, if there is one
    trials       trials of the problem's referee, one for each test; empty if there are none
    """

    verdict: Verdict
    cpu_seconds: float
    failure: CaseFailure | None = omit_if_default(None)
    trials: tuple[str, ...] = omit_if_default(())


class RerunStage(ProblemStage[RerunRecord]):
    """A second run of the references that the stage `verify` found."""

    name = "run again"
    rejection_name = "verify"
    record_type = RerunRecord

    def __init__(self, verify: VerificationStage) -> None:
        self._verify = verify
        self.seed: int = verify.seed + 1

    def key(self, row: BuildRow) -> str | None:
        return self._verify.key(row) if row.problem.verified else None

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> RerunRecord:
        problem = row.problem
        assert problem.reference is not None
        keep_outputs = problem.tests.referee is not None
        metered = MeteredSandbox(sandbox(self.seed))
        judgement = metered.judge(problem.reference, problem.tests, keep_outputs=keep_outputs)
        reference_index = passing_index(row.problem)
        failure = None if judgement.accepted or reference_index is None else first_failure(reference_index, judgement)
        trials = _referee_trials(row.problem, judgement)
        return RerunRecord(judgement.verdict, metered.spent_seconds, failure, trials)

    def settle(self, row: BuildRow, record: RerunRecord) -> BuildRow:
        if record.verdict is not Verdict.ACCEPTED:
            detail = f"accepted, then {record.verdict.value} with another seed"
            failures = (record.failure,) if record.failure else ()
            return replace(row.reject("verify", FLAKY, detail), failures=failures)
        return row.update(tests=row.problem.tests.with_trials(record.trials)) if record.trials else row

    def cpu_seconds(self, record: RerunRecord) -> float:
        return record.cpu_seconds


def _referee_trials(problem: Problem, judgement: Judgement) -> tuple[str, ...]:
    """Return the reference's output in each case, as trials of the referee; empty if there are none.

    An output equal to the expected one is omitted as redundant.
    """
    if not judgement.accepted or not judgement.outputs:
        return ()
    pairs = zip(problem.tests.cases, judgement.outputs, strict=True)
    outputs = tuple("" if output.strip() == case.expected.strip() else output for case, output in pairs)
    return outputs if any(outputs) else ()
