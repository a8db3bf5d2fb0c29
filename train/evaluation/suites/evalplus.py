"""What HumanEval+ and MBPP+ share: their rows, in the two forms in which they are published, and their judge.

EvalPlus's own files have the columns base_input, plus_input and atol. The Hub's have a test program instead, in which
all inputs are one list, so there is one part, "plus". What that program expects is not read: the expected outputs are
those of the reference.
"""

import ast
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from curate.errors import CurateError
from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import ParseError, allow_long_integers
from train.evaluation.extraction.registry import DEFAULT
from train.evaluation.judges.call_judge import CallJudge, SuitePart
from train.evaluation.judges.call_run import Reference
from train.evaluation.judges.sandbox_runner import encode

BASE, PLUS = "base", "plus"
_INPUTS = re.compile(r"^[ \t]*inputs = (\[.*\])[ \t]*$", re.MULTILINE)
_ASSERTION = re.compile(r"^[ \t]*assertion\((.*)\)[ \t]*$", re.MULTILINE)
_NAMES = {"inf": float("inf"), "nan": float("nan")}
Arguments = list[Any]


@dataclass(frozen=True, slots=True)
class TaskTests:
    """The tests of a task: the arguments of each call, by the names of the parts, and the tolerance for floats."""

    parts: tuple[tuple[str, list[Arguments]], ...]
    tolerance: float


def is_evalplus_form(row: Row, prefix: str) -> bool:
    """Tell whether this is a row of EvalPlus's own file for the benchmark whose task ids have this prefix."""
    return row["plus_input"] is not None and str(row["task_id"]).startswith(prefix)


def is_hub_form(row: Row) -> bool:
    """Tell whether a row has a test program of EvalPlus."""
    return "def assertion(" in str(row["test"] or "")


def parse_evalplus_tests(row: Row, restored: Callable[[Arguments], Arguments] = list) -> TaskTests:
    """Return the tests of a row of EvalPlus's own file. Raises ParseError.

    restored   gives the arguments of a call the types that they had
    """
    parts = []
    for name in (BASE, PLUS):
        calls = row[f"{name}_input"] or []  # where a task has no such inputs, the file has {}
        if not isinstance(calls, list) or not all(isinstance(arguments, list) for arguments in calls):
            raise ParseError(f"{name}_input is not a list of lists")
        try:
            parts.append((name, [restored(arguments) for arguments in calls]))
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise ParseError(f"{name}_input has arguments of another form: {error}") from None
    if not isinstance(row["atol"], int | float):
        raise ParseError("atol is not a number")
    if not any(calls for _, calls in parts):
        raise ParseError("it has no inputs")
    return TaskTests(tuple((name, calls) for name, calls in parts if calls), row["atol"])


def parse_hub_tests(program: str) -> tuple[TaskTests, str]:
    """Return the tests in a test program, and the name of the function that it calls. Raises ParseError."""
    inputs, assertion = _INPUTS.search(program), _ASSERTION.search(program)
    if inputs is None or assertion is None:
        raise ParseError("the test program has no inputs, or no assertion")
    try:
        with allow_long_integers():
            calls = _literal(inputs[1])
            compared, *_, tolerance = ast.parse(f"f({assertion[1]})", mode="eval").body.args  # type: ignore[attr-defined]
        tolerance = ast.literal_eval(tolerance)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ParseError(f"the test program is of another form: {error}") from None
    name = next((node.id for node in ast.walk(compared) if isinstance(node, ast.Name)), "")
    return TaskTests(((PLUS, [list(arguments) for arguments in calls]),), tolerance), name


def _literal(text: str) -> Any:
    tree = ast.parse(text, mode="eval").body

    class Named(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.Constant(_NAMES[node.id]) if node.id in _NAMES else node

    return ast.literal_eval(Named().visit(tree) if any(name in text for name in _NAMES) else tree)


def make_judge(
    program: str, entry_point: str, tests: TaskTests, preamble: str = "", *, extraction: str = DEFAULT
) -> CallJudge:
    """Return the judge of a task.

    program     the reference
    preamble    code that runs before an answer
    extraction  how the program is found in an answer
    """
    parts = [
        SuitePart.of(name, Reference(program, entry_point, tuple(map(_encoded, calls)))) for name, calls in tests.parts
    ]
    return CallJudge(tuple(parts), tests.tolerance, preamble, extraction)


def mbpp_docstring(statement: str) -> str:
    """Return a task of MBPP, with its first assertion, in the form in which EvalPlus's own file has it."""
    return f'"""\n{statement}\n"""\n'


def _encoded(arguments: Arguments) -> str:
    return json.dumps(encode(arguments), separators=(",", ":"))


IMPORTS = "imports"  # an option, whose values say whose imports an answer can use
_FROM_ANSWER, _FROM_PROMPT = "answer", "prompt"


def uses_prompt_imports(table: TableFiles) -> bool:
    """Return whether the option `imports` says that an answer can use what stands before the function in the prompt.

    Raises CurateError for unknown options and values.
    """
    value = validate_options(table, (IMPORTS,)).get(IMPORTS, _FROM_ANSWER)
    if value not in (_FROM_ANSWER, _FROM_PROMPT):
        raise CurateError(f"{table.location}: {IMPORTS} must be {_FROM_ANSWER} or {_FROM_PROMPT}, not {value!r}")
    return bool(value == _FROM_PROMPT)
