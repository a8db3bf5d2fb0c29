"""The verification of expected answers to math problems, with the judge of `rewards.mathematics`.

A question is verified if the judge can parse its answer and finds it equal to itself; the answer may still be wrong.
The judge runs on this machine, whatever the backend of the build.
"""

from curate.build_state import BuildState
from curate.errors import CurateError
from curate.stage import BuildRow, OpenSandbox, ProblemStage, compute_fingerprint
from rewards.mathematics import MathReward
from rewards.reward import ACCEPTED, CHECKER_FAILED, Completion, Task
from sandbox import SandboxError

UNPARSABLE = "unparsable_answer"  # reason of rejections
_PROBE_ANSWER = "1"  # compared with the expected answer, to check whether that can be parsed
_DETAILS = {
    "not_mathematics": "math-verify reads it as text, or cannot read it in time, so no other answer would be wrong",
    "not_itself": "math-verify does not find it equal to itself",
}


class AnswerStage(ProblemStage[str]):
    """A check of expected answers. A record is the cause of a rejection; empty for none.

    seed: has no effect on the judge; a stage with a seed examines problems concurrently in threads
    """

    name, rejection_name = "verify answers", "verify"
    record_type = str

    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        self._judge: MathReward | None = None  # None outside `run`, so that the stage can be pickled

    def key(self, row: BuildRow) -> str | None:
        expected = row.problem.expected_answer
        return compute_fingerprint(expected) if expected else None

    def run(self, build: BuildState) -> None:
        try:
            super().run(build)
        finally:
            if self._judge is not None:
                self._judge.close()
            self._judge = None

    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> str:
        if self._judge is None:
            try:
                self._judge = MathReward()  # two threads may each create one, with the same sandbox
            except ModuleNotFoundError as error:
                raise CurateError(f"{row.problem.id}: {error}") from error
        task = Task(expected=row.problem.expected_answer)
        judge = self._judge

        def compare(answer: str) -> str | None:
            reward = judge(Completion(rf"\boxed{{{answer}}}", 0), task)
            if reward.verdict == CHECKER_FAILED:
                raise SandboxError(reward.detail)
            return None if reward.value is None else reward.verdict

        if compare(_PROBE_ANSWER) is None:
            return "not_mathematics"
        return "" if compare(row.problem.expected_answer) == ACCEPTED else "not_itself"

    def apply_record(self, row: BuildRow, record: str) -> BuildRow:
        if not record:
            return row.update(verified=True)
        return row.reject("verify", UNPARSABLE, f"{_DETAILS[record]}: {row.problem.expected_answer[:200]}", record)
