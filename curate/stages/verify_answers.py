r"""Parse the expected answers of questions of mathematics with the judge of rewards; reject the unreadable ones. A
question is verified if the judge can parse its answer, so it can reject other answers, and the answer equals
itself. This does not show that the answer is right. The judge is on this machine, on whatever backend the programs of a
build run.
"""

from curate.build_state import BuildState
from curate.errors import CurateError
from curate.stage import BuildRow, OpenSandbox, ProblemStage, compute_fingerprint
from rewards.mathematics import MathReward
from rewards.reward import ACCEPTED, CHECKER_FAILED, Completion, Task
from sandbox import SandboxError

UNPARSABLE = "unparsable_answer"  # the reason of its rejections
_PROBE_ANSWER = "1"  # quick to parse
_DETAILS = {
    "not_mathematics": "math-verify reads it as text, or cannot read it in time, so no other answer would be wrong",
    "not_itself": "math-verify does not find it equal to itself",
}


class AnswerStage(ProblemStage[str]):
    """A check that expected answers can be judged. A record is the cause of a rejection; empty for none.

    seed  only makes several threads use the judge concurrently
    """

    name, rejection_name = "verify answers", "verify"
    record_type = str

    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        self._judge: MathReward | None = None  # only during `run`, since stages are pickled

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
                self._judge = MathReward()  # two threads may make one each; their sandbox is the same
            except ModuleNotFoundError as error:
                raise CurateError(f"{row.problem.id}: {error}") from error
        task = Task(expected=row.problem.expected_answer)
        judge = self._judge

        def compare(answer: str) -> str | None:
            """Return the verdict; None if it is unknown."""
            reward = judge(Completion(rf"\boxed{{{answer}}}", 0), task)
            if reward.verdict == CHECKER_FAILED:
                raise SandboxError(reward.detail)
            return None if reward.value is None else reward.verdict

        if compare(_PROBE_ANSWER) is None:
            return "not_mathematics"
        return "" if compare(row.problem.expected_answer) == ACCEPTED else "not_itself"

    def settle(self, row: BuildRow, record: str) -> BuildRow:
        if not record:
            return row.update(verified=True)
        return row.reject("verify", UNPARSABLE, f"{_DETAILS[record]}: {row.problem.expected_answer[:200]}", record)
