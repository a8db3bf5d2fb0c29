"""A judge that compares the return values of a completion's function with the reference's, as EvalPlus does.

The tests have two parts, base and plus inputs; the first wrong part ends the judging. Each part is one sandbox run,
which calls the function with all inputs. The judge's process compares the return values.

The limit on CPU time is `call_seconds` for a call and MAX_SECONDS for a part, but at least FACTOR times the reference's
time (see time_limits.py).

An output is correct if it equals (==) the expected output, or if its numbers are within the task's tolerance. Without a
tolerance, FLOAT_TOLERANCE applies from the first input whose expected output consists of floats. Functions with several
correct outputs have their own rules. Large outputs are compared by digest.

Values from a completion's process are untrusted. Decoding bounds their size, never hashes them as Python objects, and
uses none of their classes.
"""

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rewards.extract import PYTHON_ONLY
from rewards.reward import NO_CODE
from sandbox import Program, Sandbox, Verdict
from train.evaluation.judges import sandbox_runner
from train.evaluation.judges.call_run import (
    MAX_SECONDS,
    MEMORY_MB,
    CallOutput,
    Reference,
    are_outputs_equal,
    compute_expected_outputs,
    run_calls,
)
from train.evaluation.judges.extraction import DEFAULT_RULE, ExpectedProgram, extract_program
from train.evaluation.judges.judge import JudgeResult, build_extraction_identity

CALL_SECONDS = 1.0  # CPU time limit of a call, as in EvalPlus 0.3.1; EvalPlus has 4.0 since April 2025
FACTOR = 4.0
_MAX_PROGRAM_CHARS = 4 << 20
FLOAT_TOLERANCE = 1e-6
_RELATIVE_TOLERANCE = 1e-7
_MAX_COMPARED = 10_000_000  # maximum size of an array that numpy may broadcast from two shapes
_UNEQUAL_MARKS = ("NaN", '{"o"')  # substrings of encodings whose values equal nothing, not even themselves
Tree = Any  # JSON value that encodes a Python value; see sandbox_runner.encode


@dataclass(frozen=True, slots=True)
class CallJudge:
    """A judge that accepts a completion if its function returns the same values as the reference.

    parts         parts of the tests by name, in judging order
    tolerance     absolute tolerance for floats; 0: FLOAT_TOLERANCE where expected outputs are floats
    preamble      code that runs before the program, such as imports; empty: none
    extraction    rule that extracts the program: one of extraction.RULES
    prompt        beginning of the program in the prompt; empty: none
    call_seconds  CPU time limit of each call
    """

    parts: tuple[tuple[str, Reference], ...]
    tolerance: float = 0.0
    preamble: str = ""
    extraction: str = DEFAULT_RULE
    prompt: str = ""
    call_seconds: float = CALL_SECONDS

    @property
    def identity(self) -> list[Any]:
        limits = [self.call_seconds, MAX_SECONDS, FACTOR, *MEMORY_MB]
        parts = [[name, reference.digest] for name, reference in self.parts]
        return ["calls", parts, self.tolerance, self.preamble, limits, *build_extraction_identity(self.extraction)]

    def extract_program(self, completion: str) -> Program | None:
        entry_points = tuple({reference.entry_point for _, reference in self.parts})
        return extract_program(self.extraction, completion, ExpectedProgram(PYTHON_ONLY, entry_points, self.prompt))

    def judge(self, completion: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        program = self.extract_program(completion)
        return JudgeResult(NO_CODE) if program is None else self.judge_program(program.source, sandbox, time_factor)

    def judge_program(self, program: str, sandbox: Sandbox, time_factor: float = 1.0) -> JudgeResult:
        """Judge a program. Raises SandboxError, and NoVerdictError if the reference itself fails."""
        if len(program) > _MAX_PROGRAM_CHARS:
            return JudgeResult(Verdict.COMPILE_ERROR.value)
        verdicts: list[tuple[str, str]] = []
        for name, reference in self.parts:
            verdict = self.judge_part(reference, program, sandbox, time_factor)
            verdicts.append((name, verdict.value))
            if verdict is not Verdict.ACCEPTED:
                break
        return JudgeResult(verdicts[-1][1], tuple(verdicts))

    def judge_part(self, reference: Reference, program: str, sandbox: Sandbox, time_factor: float = 1.0) -> Verdict:
        expected = compute_expected_outputs(reference, sandbox)
        limits = [time_factor * max(self.call_seconds, FACTOR * output.cpu_seconds) for output in expected]
        max_seconds = time_factor * max(MAX_SECONDS, FACTOR * sum(output.cpu_seconds for output in expected))
        calls = run_calls(
            [self.preamble, program], reference.entry_point, reference.inputs, limits, sandbox, max_seconds=max_seconds
        )
        wrong = find_first_mismatch(reference.entry_point, self.tolerance, reference.inputs, calls.outputs, expected)
        return calls.verdict if wrong is None else Verdict.WRONG_ANSWER


def find_first_mismatch(
    entry_point: str,
    tolerance: float,
    inputs: Sequence[str],
    outputs: Sequence[CallOutput],
    expected: Sequence[CallOutput],
) -> int | None:
    """Return the index of the first wrong output; None if all are correct.

    entry_point  name of the function, which may have its own rule
    tolerance    absolute tolerance of the task; 0: none
    inputs       argument list of each call, as JSON (see sandbox_runner.encode)
    """
    for index, (output, expected_output) in enumerate(zip(outputs, expected, strict=False)):
        if entry_point not in _OWN_RULES and _is_identical(output, expected_output):
            continue
        if not _is_correct(entry_point, tolerance, inputs[index], output, expected[: index + 1]):
            return index
    return None


def _is_identical(output: CallOutput, expected_output: CallOutput) -> bool:
    """Return whether two values are equal by their encodings alone."""
    is_small = not (output.is_digest or expected_output.is_digest)
    return is_small and output.text == expected_output.text and not any(mark in output.text for mark in _UNEQUAL_MARKS)


def _is_correct(
    entry_point: str, tolerance: float, arguments: str, output: CallOutput, expected: Sequence[CallOutput]
) -> bool:
    """Return whether an output is correct. The last element of `expected` is the expected output."""
    expected_output = expected[-1]
    if output.is_digest or expected_output.is_digest:
        return entry_point == _ALWAYS_CORRECT or are_outputs_equal(output, expected_output)
    before = _choose_tolerance(tolerance, expected[:-1])
    try:
        actual, reference_value = json.loads(output.text), json.loads(expected_output.text)
        if entry_point in _OWN_RULES:
            is_correct = _OWN_RULES[entry_point](
                actual, reference_value, sandbox_runner.decode(json.loads(arguments)), before
            )
        else:
            is_correct = _are_equal(actual, reference_value)
        if is_correct:
            return True
        current = _choose_tolerance(tolerance, expected)
        return current != 0 and _is_close(actual, reference_value, current)
    except Exception:  # invalid encodings and unsupported values are wrong, as in EvalPlus
        return False


def _choose_tolerance(tolerance: float, expected: Sequence[CallOutput]) -> float:
    return tolerance or (FLOAT_TOLERANCE if any(map(_contains_only_floats, expected)) else 0.0)


def _contains_only_floats(output: CallOutput) -> bool:
    if output.is_digest:
        return False
    tree = _unwrap_subclass(json.loads(output.text))
    items = tree.get("t", []) if isinstance(tree, dict) else tree
    return isinstance(tree, float) or (isinstance(items, list) and bool(items) and all(map(_is_float, items)))


def _is_float(tree: Tree) -> bool:
    return isinstance(_unwrap_subclass(tree), float)


def _are_equal(actual: Tree, expected: Tree) -> bool:
    try:
        return sandbox_runner.canonical_text(_decode_untrusted(actual)) == sandbox_runner.canonical_text(
            _decode_untrusted(expected)
        )
    except sandbox_runner.IncomparableValueError:
        return False


def _decode_untrusted(tree: Tree) -> Any:
    return sandbox_runner.decode(tree, untrusted=True)


def _unwrap_subclass(tree: Tree) -> Tree:
    return tree["a"][1] if isinstance(tree, dict) and "a" in tree else tree


def _get_class_name(tree: Tree) -> str:
    if isinstance(tree, dict):
        ((tag, content),) = tree.items()
        return str(content[0] if tag in ("a", "o") else {"i": "int", "t": "tuple", "c": "complex"}.get(tag, tag))
    return type(tree).__name__


def _is_close(actual: Tree, expected: Tree, tolerance: float) -> bool:
    """Return whether two values have the same class and length, and are equal by numpy.allclose."""
    import numpy as np

    if _get_class_name(actual) != _get_class_name(expected):
        return False
    actual_numbers, expected_numbers = _to_numbers(actual), _to_numbers(expected)
    if isinstance(expected_numbers, list) and len(actual_numbers) != len(expected_numbers):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if max(1, np.size(actual_numbers)) * max(1, np.size(expected_numbers)) > _MAX_COMPARED and np.shape(
            actual_numbers
        ) != np.shape(expected_numbers):
            return False
        return bool(np.allclose(actual_numbers, expected_numbers, rtol=_RELATIVE_TOLERANCE, atol=tolerance))


def _to_numbers(tree: Tree) -> Any:
    """Return a number, or nested lists of numbers. Raises TypeError for other values, which numpy cannot compare."""
    tree = _unwrap_subclass(tree)
    if isinstance(tree, dict) and "t" in tree:
        tree = tree["t"]
    if isinstance(tree, list):
        return [_to_numbers(item) for item in tree]
    if isinstance(tree, dict) and ("i" in tree or "c" in tree):
        return sandbox_runner.decode(tree)
    if not isinstance(tree, int | float):
        raise TypeError("not a number")
    return tree


def _is_root(actual: Tree, expected: Tree, arguments: list[Any], tolerance: float) -> bool:
    (coefficients,) = arguments
    x = _to_numbers(actual)
    return bool(abs(sum(c * math.pow(x, power) for power, c in enumerate(coefficients))) <= tolerance)


def _accept_any(actual: Tree, expected: Tree, arguments: list[Any], tolerance: float) -> bool:
    return True


def _is_equal_or_zero(actual: Tree, expected: Tree, arguments: list[Any], tolerance: float) -> bool:
    return _are_equal(actual, expected) or _are_equal(actual, 0)


def _is_equal_or_pyramid_area(actual: Tree, expected: Tree, arguments: list[Any], tolerance: float) -> bool:
    if _are_equal(actual, expected):
        return True
    base, height = arguments
    area = round(base**2 + 2 * base * math.sqrt((base / 2) ** 2 + height**2))
    return bool(abs(_to_numbers(actual) - area) <= tolerance)


def _is_equal_or_digit_distance(actual: Tree, expected: Tree, arguments: list[Any], tolerance: float) -> bool:
    if _are_equal(actual, expected):
        return True
    first, second = map(str, arguments)
    width = max(len(first), len(second))
    pairs = zip(first.zfill(width), second.zfill(width), strict=True)
    return _are_equal(actual, sum(abs(int(one) - int(other)) for one, other in pairs))


def _has_same_members(actual: Tree, expected: Tree, arguments: list[Any], tolerance: float) -> bool:
    return _canonicalize_items(actual) == _canonicalize_items(expected)


def _canonicalize_items(tree: Tree) -> set[str]:
    """Return the canonical texts of an iterable's items. Raises TypeError for another value or an unhashable item."""
    tree = _unwrap_subclass(tree)
    if isinstance(tree, str):
        return set(map(sandbox_runner.canonical_text, tree))
    if isinstance(tree, dict):
        ((tag, content),) = tree.items()
        tree = (
            [key for key, _ in content]
            if tag == "d"
            else content[1]
            if tag == "o"
            else content
            if tag in ("t", "s")
            else None
        )
    if not isinstance(tree, list) or not all(map(_is_hashable, tree)):
        raise TypeError("not an iterable of hashable items")
    return {sandbox_runner.canonical_text(_decode_untrusted(item)) for item in tree}


def _is_hashable(tree: Tree) -> bool:
    tree = _unwrap_subclass(tree)
    if isinstance(tree, dict) and "t" in tree:
        return all(map(_is_hashable, tree["t"]))
    return not isinstance(tree, list) and not (isinstance(tree, dict) and tree.keys() & {"s", "d", "o"})


def _has_equal_truth(actual: Tree, expected: Tree, arguments: list[Any], tolerance: float) -> bool:
    """Compare truth values: the reference returns a match or None, but a completion may return a bool."""
    return (actual if isinstance(actual, bool) else actual is not None) == (expected is not None)


_ALWAYS_CORRECT = "are_equivalent"
_SETS = (
    "similar_elements find_char_long common_in_nested_lists extract_singly larg_nnum intersection_array"
    " find_dissimilar Diff"
).split()
_OWN_RULES: dict[str, Callable[[Tree, Tree, list[Any], float], bool]] = {
    "find_zero": _is_root,
    _ALWAYS_CORRECT: _accept_any,
    "sum_div": _is_equal_or_zero,
    "surface_Area": _is_equal_or_pyramid_area,
    "digit_distance_nums": _is_equal_or_digit_distance,
    **dict.fromkeys(_SETS, _has_same_members),
    **dict.fromkeys(("check_str", "text_match_three", "text_starta_endb"), _has_equal_truth),
}
