"""A second run of each reference with another seed, to reject problems with a flaky reference."""

from dataclasses import dataclass, replace

from curate.json_records import omit_if_default
from curate.judging import CaseFailure, MeteredSandbox, find_first_failure
from curate.problem import Problem
from curate.stage import BuildRow, OpenSandbox, ProblemStage
from curate.stages.verify import VerificationStage, get_reference_index
from sandbox import Judgement, Verdict

FLAKY = "flaky_reference"  # reason of rejections


@dataclass(frozen=True, slots=True)
class RerunRecord:
    """The result of the second run of a reference.

    cpu_seconds  CPU time of the reference over all tests
    failure      its first failure; None if it passed again
    trials       outputs with which the problem's referee can be tried, one per test; empty for none
    """

    verdict: Verdict
    cpu_seconds: float
    failure: CaseFailure | None = omit_if_default(None)
    trials: tuple[str, ...] = omit_if_default(())


class RerunStage(ProblemStage[RerunRecord]):
    """A second run of the references of the stage `verify`."""

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
        index = get_reference_index(row.problem)
        failure = None if judgement.accepted or index is None else find_first_failure(index, judgement)
        trials = _collect_referee_trials(row.problem, judgement)
        return RerunRecord(judgement.verdict, metered.spent_seconds, failure, trials)

    def apply_record(self, row: BuildRow, record: RerunRecord) -> BuildRow:
        if record.verdict is not Verdict.ACCEPTED:
            detail = f"accepted, then {record.verdict.value} with another seed"
            failures = (record.failure,) if record.failure else ()
            return replace(row.reject("verify", FLAKY, detail), failures=failures)
        return row.update(tests=row.problem.tests.with_trials(record.trials)) if record.trials else row

    def cpu_seconds(self, record: RerunRecord) -> float:
        return record.cpu_seconds


def _collect_referee_trials(problem: Problem, judgement: Judgement) -> tuple[str, ...]:
    """Return the reference's outputs as trials of the referee; "" for each output equal to the expected one.

    The result is empty without outputs, or if all of them equal the expected ones.
    """
    if not judgement.accepted or not judgement.outputs:
        return ()
    pairs = zip(problem.tests.cases, judgement.outputs, strict=True)
    outputs = tuple("" if output.strip() == case.expected.strip() else output for case, output in pairs)
    return outputs if any(outputs) else ()
