"""An answer says what a function returns for an input (CRUXEval-O).

The answer is an expression. Its value is computed in the sandbox and compared with the output outside it. The function
is not defined there, so an answer cannot call it: CRUXEval only refuses answers that contain the very call.
"""

from dataclasses import dataclass
from typing import Any

from rewards.reward import NO_ANSWER
from sandbox import Sandbox, Verdict
from train.evaluation.judges.completed_assertion import predicted_output
from train.evaluation.judges.equal_outputs import equal_outputs
from train.evaluation.judges.expression_run import MAX_EXPRESSION_CHARS, SECONDS, literal_reference, run_expression
from train.evaluation.judges.judge import JudgeResult
from train.evaluation.judges.reference_outputs import expected_outputs


@dataclass(frozen=True, slots=True)
class OutputJudge:
    """output    what the function returns, as a literal
    stepwise  whether the prompt asks for steps before the answer
    """

    output: str
    stepwise: bool = False

    @property
    def identity(self) -> list[Any]:
        return ["output", self.output, self.stepwise, SECONDS]

    def judge(self, answer: str, sandbox: Sandbox) -> JudgeResult:
        expression = predicted_output(answer, stepwise=self.stepwise)
        if not expression:
            return JudgeResult(NO_ANSWER)
        if len(expression) > MAX_EXPRESSION_CHARS:
            return JudgeResult(Verdict.WRONG_ANSWER.value)
        reference = literal_reference(self.output)
        (wanted,) = expected_outputs(reference, reference.digest, sandbox)
        calls = run_expression(expression, sandbox)
        if not calls.outputs:
            return JudgeResult(calls.verdict.value)
        right = equal_outputs(calls.outputs[0], wanted)
        return JudgeResult((Verdict.ACCEPTED if right else Verdict.WRONG_ANSWER).value)
