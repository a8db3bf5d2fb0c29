"""The judges of CRUXEval, for predicted outputs and for predicted inputs.

Predictions are extracted as in CRUXEval's own code, except that <think> blocks are removed. A prediction is the text
between the first [ANSWER] and [/ANSWER]; without these tags, the whole text or, if the prompt requests steps, its last
line. In an assertion, the input is the text before the first `==`, and the output the text up to the second `==`.

The sandbox computes the values, and this process compares them without tolerance. Predicted outputs are evaluated
without the function, so a completion cannot call it. A predicted input could replace the function, so one run computes
the arguments as plain data, and another calls the function with them. CRUXEval itself accepts expressions such as
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
    are_outputs_equal,
    compute_expected_outputs,
    run_calls,
)
from train.evaluation.judges.judge import JudgeResult

SECONDS = 3.0  # CPU time limit; CRUXEval itself limits the wall time to 3 seconds
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
    """A judge of a function's predicted output for an input (CRUXEval-O).

    output          the expected output, as a literal
    requests_steps  whether the prompt requests steps before the answer
    seconds         CPU time limit of the prediction
    """

    output: str
    requests_steps: bool = False
    seconds: float = SECONDS

    @property
    def identity(self) -> list[Any]:
        return ["output", self.output, self.requests_steps, self.seconds]

    def judge(self, completion: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        expression = extract_predicted_output(completion, requests_steps=self.requests_steps)
        if not expression:
            return JudgeResult(NO_ANSWER)
        if len(expression) > _MAX_EXPRESSION_CHARS:
            return _WRONG
        expected_output = _evaluate_literal(self.output, sandbox)
        return _compare(_run_expression(expression, time_factor * self.seconds, sandbox), expected_output)


@dataclass(frozen=True, slots=True)
class InputJudge:
    """A judge of predicted inputs, for which a function must return a known output (CRUXEval-I).

    code            source that defines the function f
    output          the expected output, as a literal
    requests_steps  whether the prompt requests steps before the answer
    seconds         CPU time limit of the prediction, and of the function
    """

    code: str
    output: str
    requests_steps: bool = False
    seconds: float = SECONDS

    @property
    def identity(self) -> list[Any]:
        return ["input", self.code, self.output, self.requests_steps, self.seconds]

    def judge(self, completion: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        call = extract_predicted_input(completion, requests_steps=self.requests_steps)
        if not call:
            return JudgeResult(NO_ANSWER)
        if len(call) > _MAX_EXPRESSION_CHARS or not _is_call(call):
            return _WRONG
        expected_output = _evaluate_literal(self.output, sandbox)
        seconds = time_factor * self.seconds
        collect = self.code + _COLLECT
        found = _run_expression(_ARGUMENTS + call.removeprefix(_FUNCTION), seconds, sandbox, preamble=collect)
        if not found.outputs:
            return JudgeResult(found.verdict.value)
        arguments = _reencode_arguments(found.outputs[0].text)
        if arguments is None:
            return _WRONG
        return _compare(run_calls([self.code, _CALL], "call_with", [arguments], [seconds], sandbox), expected_output)


def extract_predicted_output(completion: str, *, requests_steps: bool) -> str:
    """Extract the expression of the predicted output; empty if there is none."""
    text = _extract_answer(completion, requests_steps)
    return text.split("==")[1].strip() if "==" in text else text


def extract_predicted_input(completion: str, *, requests_steps: bool) -> str:
    """Extract the predicted call of the function; empty if there is none."""
    text = _extract_answer(completion, requests_steps).split("==")[0]
    return text.split("assert")[1].strip() if "assert" in text else text.strip()


def _extract_answer(completion: str, requests_steps: bool) -> str:
    text = strip_thinking(completion, lambda rest: _BEGIN in rest) or ""
    if _BEGIN in text:
        return text.split(_BEGIN)[1].split(_END)[0].strip()
    text = text.split(_END)[0].strip()
    return text.split("\n")[-1].strip() if requests_steps else text


def _is_call(expression: str) -> bool:
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
    program = f"def {_NAME}():\n    return eval({expression!r}, globals())\n"
    return run_calls([preamble, program], _NAME, [_NO_ARGUMENTS], [seconds], sandbox)


def _evaluate_literal(literal: str, sandbox: Sandbox) -> CallOutput:
    reference = Reference(f"def {_NAME}():\n    return (\n{literal}\n)\n", _NAME, (_NO_ARGUMENTS,))
    (value,) = compute_expected_outputs(reference, sandbox)
    return value


def _reencode_arguments(untrusted_json: str) -> str | None:
    """Parse and re-encode the arguments, which come from an untrusted process; None if invalid."""
    try:
        positional, keywords = json.loads(untrusted_json)
    except (ValueError, TypeError, RecursionError):
        return None
    return json.dumps([positional, keywords])


def _compare(calls: CallResults, expected_output: CallOutput) -> JudgeResult:
    if not calls.outputs:
        return JudgeResult(calls.verdict.value)
    return JudgeResult(Verdict.ACCEPTED.value) if are_outputs_equal(calls.outputs[0], expected_output) else _WRONG
