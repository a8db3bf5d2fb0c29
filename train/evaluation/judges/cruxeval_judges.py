"""Evaluate an expression of an answer in the sandbox, and read the value that it claims to have.

MERGED The assertion that an answer to CRUXEval completes, taken from the answer as CRUXEval's own code takes it.

The answer is what stands between the first [ANSWER] and [/ANSWER]; without these tags, the whole text or, if the model
was asked to think first, its last line. Of the assertion in it, the input is what stands before the first `==`, and the
output what stands between the first and the second. Thoughts in <think> tags are left out, unlike there.

MERGED Whether two outputs are equal in Python's sense, decided outside the sandbox, without any tolerance.

MERGED An answer gives an input for which a function returns a known output (CRUXEval-I).

The answer is a call of the function. Since it may know the output, it is never run together with the function: first
its arguments are computed in the sandbox, and come out as plain data. Then the function alone is called with them, and
what it returns is compared outside the sandbox. CRUXEval accepts any expression with the right value that contains
"f(", such as `3 or f(0)`.

MERGED An answer says what a function returns for an input (CRUXEval-O).

The answer is an expression. Its value is computed in the sandbox and compared with the output outside it. The function
is not defined there, so an answer cannot call it: CRUXEval only refuses answers that contain the very call.
"""

import ast
import json
from dataclasses import dataclass
from typing import Any

from rewards.extract.thinking import strip_thinking
from rewards.reward import NO_ANSWER
from sandbox import Sandbox, Verdict
from train.evaluation.judges import sandbox_runner
from train.evaluation.judges.call_run import CallOutput, CallResults, Reference, expected_outputs, run_calls
from train.evaluation.judges.judge import JudgeResult

SECONDS = 3.0  # CPU time; CRUXEval's own limit is 3 seconds of wall time
MAX_EXPRESSION_CHARS = 64 * 1024  # characters of an expression
_NO_ARGUMENTS = "[]"
_NAME = "value_of_expression"


def run_expression(expression: str, sandbox: Sandbox, *, preamble: str = "") -> CallResults:
    """Evaluate an expression, with no more than SECONDS of CPU time. Raises SandboxError.

    preamble   code that runs before, whose names the expression can use
    """
    program = f"def {_NAME}():\n    return eval({expression!r}, globals())\n"
    return run_calls([preamble, program], _NAME, [_NO_ARGUMENTS], [SECONDS], sandbox)


def literal_reference(literal: str) -> Reference:
    """Return the reference whose only output is the value of a literal of a data set, which is trusted."""
    return Reference(f"def {_NAME}():\n    return (\n{literal}\n)\n", _NAME, (_NO_ARGUMENTS,))


_BEGIN, _END = "[ANSWER]", "[/ANSWER]"


def predicted_output(answer: str, *, stepwise: bool) -> str:
    """Return the expression that an answer gives as output; empty if there is none.

    stepwise   whether the prompt asks for steps before the answer
    """
    text = _answer(answer, stepwise)
    return text.split("==")[1].strip() if "==" in text else text


def predicted_input(answer: str, *, stepwise: bool) -> str:
    """Return the expression that an answer gives as call of the function; empty if there is none."""
    text = _answer(answer, stepwise).split("==")[0]
    return text.split("assert")[1].strip() if "assert" in text else text.strip()


def _answer(answer: str, stepwise: bool) -> str:
    text = strip_thinking(answer, lambda rest: _BEGIN in rest) or ""
    if _BEGIN in text:
        return text.split(_BEGIN)[1].split(_END)[0].strip()
    text = text.split(_END)[0].strip()
    return text.split("\n")[-1].strip() if stepwise else text


def equal_outputs(given: CallOutput, wanted: CallOutput) -> bool:
    """Return whether two outputs are equal. What is not plain data, or not an encoding at all, equals nothing."""
    return _digest(given) == _digest(wanted) != sandbox_runner.UNEQUAL


def _digest(output: CallOutput) -> str:
    try:
        return (
            output.text
            if output.is_digest
            else sandbox_runner.digest(sandbox_runner.decode(json.loads(output.text), untrusted=True))
        )
    except Exception:  # a hostile program may claim anything
        return sandbox_runner.UNEQUAL


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
