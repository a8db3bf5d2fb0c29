"""The final answer must equal the expected one: as a whole number first, if the question asks for one, then by
math-verify, as in the reward for mathematics.

The processes that compare answers are shared by all exercises. They start with the first answer, and end with this
process.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from rewards import Completion, MathReward, Task
from rewards.mathematics.reward import extract_final_answer
from rewards.reward import ACCEPTED, NO_ANSWER, WRONG_ANSWER
from sandbox import Sandbox
from train.evaluation.judges.integer_answers import parse_integer
from train.evaluation.judges.judge import JudgeResult, NoVerdictError


@dataclass(frozen=True, slots=True)
class MathJudge:
    """expected   the right answer, in LaTeX
    expects_integer  whether it is a whole number. Then another whole number is wrong, however it is written
    """

    expected: str
    expects_integer: bool = False

    @property
    def identity(self) -> list[Any]:
        return ["mathematics", self.expected, self.expects_integer]

    def judge(self, answer: str, sandbox: Sandbox) -> JudgeResult:
        given = extract_final_answer(answer)
        if given is None:
            return JudgeResult(NO_ANSWER)
        number = parse_integer(given) if self.expects_integer else None
        if number is not None:
            return JudgeResult(ACCEPTED if number == parse_integer(self.expected) else WRONG_ANSWER)
        reward = _compared()(Completion(answer, n_tokens=0), Task(expected=self.expected))
        if reward.value is None:
            raise NoVerdictError(reward.detail)
        return JudgeResult(reward.verdict)


@cache
def _compared() -> MathReward:
    return MathReward()
