"""An answer gives an input for which a function returns a known output (CRUXEval-I).

The answer is a call of the function. Since it may know the output, it is never run together with the function: first
its arguments are computed in the sandbox, and come out as plain data. Then the function alone is called with them, and
what it returns is compared outside the sandbox. CRUXEval accepts any expression with the right value that contains
"f(", such as `3 or f(0)`.
"""

import ast
import json
from dataclasses import dataclass
from typing import Any

from rewards.reward import NO_ANSWER
from sandbox import Sandbox, Verdict
from train.evaluation.judges.call_run import run_calls
from train.evaluation.judges.completed_assertion import predicted_input
from train.evaluation.judges.equal_outputs import equal_outputs
from train.evaluation.judges.expression_run import MAX_EXPRESSION_CHARS, SECONDS, literal_reference, run_expression
from train.evaluation.judges.judge import JudgeResult
from train.evaluation.judges.reference_outputs import expected_outputs

_FUNCTION = "f"
_ARGUMENTS = "arguments_of_call"
_COLLECT = f"\n\ndef {_ARGUMENTS}(*given, **named):\n    return [list(given), named]\n"
_CALL = f"def call_with(given, named):\n    return {_FUNCTION}(*given, **named)\n"


@dataclass(frozen=True, slots=True)
class InputJudge:
    """code      defines the function, whose name is f
    output    what it has to return, as a literal
    stepwise  whether the prompt asks for steps before the answer
    """

    code: str
    output: str
    stepwise: bool = False

    @property
    def identity(self) -> list[Any]:
        return ["input", self.code, self.output, self.stepwise, SECONDS]

    def judge(self, answer: str, sandbox: Sandbox) -> JudgeResult:
        call = predicted_input(answer, stepwise=self.stepwise)
        if not call:
            return JudgeResult(NO_ANSWER)
        if len(call) > MAX_EXPRESSION_CHARS or not _is_call(call):
            return JudgeResult(Verdict.WRONG_ANSWER.value)
        reference = literal_reference(self.output)
        (wanted,) = expected_outputs(reference, reference.digest, sandbox)
        found = run_expression(_ARGUMENTS + call.removeprefix(_FUNCTION), sandbox, preamble=self.code + _COLLECT)
        if not found.outputs:
            return JudgeResult(found.verdict.value)
        arguments = _plain_arguments(found.outputs[0].text)
        if arguments is None:
            return JudgeResult(Verdict.WRONG_ANSWER.value)
        calls = run_calls([self.code, _CALL], "call_with", [arguments], [SECONDS], sandbox)
        if not calls.outputs:
            return JudgeResult(calls.verdict.value)
        right = equal_outputs(calls.outputs[0], wanted)
        return JudgeResult((Verdict.ACCEPTED if right else Verdict.WRONG_ANSWER).value)


def _is_call(expression: str) -> bool:
    """Tell whether an expression is nothing but a call of the function."""
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return (
        isinstance(tree, ast.Call)
        and isinstance(tree.func, ast.Name)
        and tree.func.id == _FUNCTION
        and expression.startswith(_FUNCTION)
    )


def _plain_arguments(claimed: str) -> str | None:
    """Return the arguments as JSON of their encoding; None if what is claimed cannot be one.

    A hostile expression may claim any text, so none of it is passed on but what JSON holds.
    """
    try:
        given, named = json.loads(claimed)
    except (ValueError, TypeError, RecursionError):
        return None
    return json.dumps([given, named])
