"""The judges of CRUXEval: a predicted output must have the correct value, and a predicted input must produce the
output.

Predictions are extracted as in CRUXEval's own code: the text between the first [ANSWER] and [/ANSWER]; without these
tags, the whole text or, if the prompt asks for steps, its last line. In an assertion, the input is the text before the
first `==`, and the output that between the first and the second. Unlike there, <think> blocks are removed.

Values are computed in the sandbox, and compared outside of it without tolerance. An output is evaluated without the
function, so a completion cannot call it; CRUXEval only rejects completions that contain the exact call. A predicted
input may embed the output, so it never runs together with the function: one run computes the arguments as plain data,
another calls the function with them. CRUXEval accepts any expression of the correct value that contains "f(", such as
`3 or f(0)`.
"""

import ast
import json
from dataclasses import dataclass
from typing import Any

from rewards.extract.thinking import strip_thinking
from rewards.reward import NO_ANSWER
from sandbox import Sandbox, Verdict
from train.evaluation.judges.call_run import (
    CallOutput,
    CallResults,
    Reference,
    compute_expected_outputs,
    equal_outputs,
    run_calls,
)
from train.evaluation.judges.judge import JudgeResult

SECONDS = 3.0  # CPU time; CRUXEval's own limit is 3 seconds of wall time
_MAX_EXPRESSION_CHARS = 64 * 1024
_BEGIN, _END = "[ANSWER]", "[/ANSWER]"
_NO_ARGUMENTS = "[]"
_NAME = "value_of_expression"
_FUNCTION = "f"
_ARGUMENTS = "arguments_of_call"
_COLLECT = f"\n\ndef {_ARGUMENTS}(*given, **named):\n    return [list(given), named]\n"
_CALL = f"def call_with(given, named):\n    return {_FUNCTION}(*given, **named)\n"
_WRONG = JudgeResult(Verdict.WRONG_ANSWER.value)


@dataclass(frozen=True, slots=True)
class OutputJudge:
    """A completion predicts a function's output for an input (CRUXEval-O).

    output          the expected output, as a literal
    asks_for_steps  whether the prompt asks for steps before the answer
    seconds         CPU seconds of the completion
    """

    output: str
    asks_for_steps: bool = False
    seconds: float = SECONDS

    @property
    def identity(self) -> list[Any]:
        return ["output", self.output, self.asks_for_steps, self.seconds]

    def judge(self, completion: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        expression = extract_predicted_output(completion, asks_for_steps=self.asks_for_steps)
        if not expression:
            return JudgeResult(NO_ANSWER)
        if len(expression) > _MAX_EXPRESSION_CHARS:
            return _WRONG
        wanted = _evaluate_literal(self.output, sandbox)
        return _compare(_run_expression(expression, time_factor * self.seconds, sandbox), wanted)


@dataclass(frozen=True, slots=True)
class InputJudge:
    """A completion predicts an input for which a function returns a known output (CRUXEval-I).

    code            defines the function f
    output          the expected output, as a literal
    asks_for_steps  whether the prompt asks for steps before the answer
    seconds         CPU seconds of the completion, and of the function
    """

    code: str
    output: str
    asks_for_steps: bool = False
    seconds: float = SECONDS

    @property
    def identity(self) -> list[Any]:
        return ["input", self.code, self.output, self.asks_for_steps, self.seconds]

    def judge(self, completion: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        call = extract_predicted_input(completion, asks_for_steps=self.asks_for_steps)
        if not call:
            return JudgeResult(NO_ANSWER)
        if len(call) > _MAX_EXPRESSION_CHARS or not _is_call(call):
            return _WRONG
        wanted = _evaluate_literal(self.output, sandbox)
        seconds = time_factor * self.seconds
        collect = self.code + _COLLECT
        found = _run_expression(_ARGUMENTS + call.removeprefix(_FUNCTION), seconds, sandbox, preamble=collect)
        if not found.outputs:
            return JudgeResult(found.verdict.value)
        arguments = _reencode_arguments(found.outputs[0].text)
        if arguments is None:
            return _WRONG
        return _compare(run_calls([self.code, _CALL], "call_with", [arguments], [seconds], sandbox), wanted)


def extract_predicted_output(completion: str, *, asks_for_steps: bool) -> str:
    """Extract the predicted output expression; empty if there is none.

    asks_for_steps: whether the prompt asks for steps before the answer
    """
    text = _extract_answer(completion, asks_for_steps)
    return text.split("==")[1].strip() if "==" in text else text


def extract_predicted_input(completion: str, *, asks_for_steps: bool) -> str:
    """Extract the predicted call of the function; empty if there is none."""
    text = _extract_answer(completion, asks_for_steps).split("==")[0]
    return text.split("assert")[1].strip() if "assert" in text else text.strip()


def _extract_answer(completion: str, asks_for_steps: bool) -> str:
    text = strip_thinking(completion, lambda rest: _BEGIN in rest) or ""
    if _BEGIN in text:
        return text.split(_BEGIN)[1].split(_END)[0].strip()
    text = text.split(_END)[0].strip()
    return text.split("\n")[-1].strip() if asks_for_steps else text


def _is_call(expression: str) -> bool:
    """Return whether an expression is nothing but a call of the function."""
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


def _run_expression(expression: str, seconds: float, sandbox: Sandbox, *, preamble: str = "") -> CallResults:
    """Evaluate an expression within `seconds` of CPU time. Raises SandboxError.

    preamble: code that runs first and defines names for the expression
    """
    program = f"def {_NAME}():\n    return eval({expression!r}, globals())\n"
    return run_calls([preamble, program], _NAME, [_NO_ARGUMENTS], [seconds], sandbox)


def _evaluate_literal(literal: str, sandbox: Sandbox) -> CallOutput:
    """Evaluate a literal of a dataset, which is trusted."""
    reference = Reference(f"def {_NAME}():\n    return (\n{literal}\n)\n", _NAME, (_NO_ARGUMENTS,))
    (value,) = compute_expected_outputs(reference, sandbox)
    return value


def _reencode_arguments(claimed: str) -> str | None:
    """Return the arguments as JSON of their encoding; None if the claim is invalid.

    A hostile expression may claim any text, so only parsed and re-encoded JSON is passed on.
    """
    try:
        given, named = json.loads(claimed)
    except (ValueError, TypeError, RecursionError):
        return None
    return json.dumps([given, named])


def _compare(calls: CallResults, wanted: CallOutput) -> JudgeResult:
    """Return the verdict on a run's only call, which must return the wanted value."""
    if not calls.outputs:
        return JudgeResult(calls.verdict.value)
    return JudgeResult(Verdict.ACCEPTED.value) if equal_outputs(calls.outputs[0], wanted) else _WRONG
