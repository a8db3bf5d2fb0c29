"""HumanEval and MBPP, judged by their own assertions; HumanEval+ and MBPP+, judged by calls with EvalPlus's rules.

Assertions run in a process that a completion cannot reach. In the original harnesses, the tests share a process with
the completion, which can patch or end them.

HumanEval   the program is the prompt followed by the completion, so the prompt's imports and helpers are available
MBPP        rows of its test split, numbers 11 to 510 (257 in the sanitized version). As in the paper, the model
            gets the task and its tests
HumanEval+  a completion must pass the base and the plus inputs. As in EvalPlus, the program is the completion alone,
            with its own imports. With `?imports=prompt`, the prompt's code before the function runs first, as in
            OpenAI's harness
MBPP+       the same for MBPP. The model gets the task and its first assertion, which shows the function's name

HumanEval+ and MBPP+ are published in two forms. EvalPlus's own files have the columns base_input, plus_input and atol.
The Hub's files have a test program instead, with all inputs in one list, so there is only the part "plus". The
reference always computes the expected outputs; those in the test program are ignored.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from curate.errors import CurateError
from curate.prompt import Chat, PromptFormat
from curate.reading.dialects import assertions
from curate.reading.dialects.dependencies import find_defined_classes, find_defined_names
from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import ParseError, allow_long_integers, optional_text, parse_text_list
from curate.sources.humaneval import extract_preamble
from sandbox import Limits, Suite
from train.evaluation.judges.call_judge import CALL_SECONDS, CallJudge
from train.evaluation.judges.call_run import Reference
from train.evaluation.judges.sandbox_runner import encode
from train.evaluation.protocols.forms import Statement
from train.evaluation.suites.suite import Exercise, RowSuite, SuiteOptions, make_row_error, read_switch, read_valid_rows

Arguments = list[Any]

_LIMITS = Limits(wall_seconds=3.0, memory_mb=1024)  # as in OpenAI's harness
_EVALPLUS_MARK = "def assertion("  # text that identifies EvalPlus's test programs on the Hub
_HUMANEVAL = ("task_id", "prompt", "entry_point", "test")
_HUMANEVAL_PLUS = ("task_id", "prompt", "entry_point", "canonical_solution")
_MBPP = ("task_id", "code", "test_list")
_MBPP_OPTIONAL = ("text", "prompt", "test_setup_code", "test_imports", "test")
_MBPP_PLUS = ("task_id", "prompt")
_MBPP_PLUS_OPTIONAL = (
    "entry_point", "canonical_solution", "base_input", "plus_input", "atol", "code", "test_list", "test",
)  # fmt: skip
_TESTS = ("test", "base_input", "plus_input", "atol")
_TEST_SPLIT = range(11, 511)  # task numbers of MBPP's test split


def _is_humaneval(row: Row) -> bool:
    return all(row[name] for name in _HUMANEVAL) and _EVALPLUS_MARK not in str(row["test"])


def _read_humaneval(table: TableFiles, options: SuiteOptions) -> Iterator[Exercise]:
    validate_options(table, ())
    for row in read_valid_rows(table, _HUMANEVAL, ()):
        id, start, name, test = (str(row[column]) for column in _HUMANEVAL)
        try:
            tests = assertions.read(test, name, preamble=extract_preamble(start, name)).to_suite(_LIMITS)
        except ParseError as error:
            raise make_row_error(table, id, error) from None
        chat = _make_chat(options.prompt, start, name)
        yield options.make_exercise(id, Statement(start, "", name), chat, options.make_suite_judge(tests, start))


def _make_chat(prompt: PromptFormat, start: str, entry_point: str) -> Chat:
    task = "Complete the function below so that it does what its docstring says."
    return prompt.build_chat(task, start, Suite([], entry_point=entry_point))


def _is_mbpp(row: Row) -> bool:
    return all(row[name] for name in _MBPP) and not _is_hub_form(row)


def _read_mbpp(table: TableFiles, options: SuiteOptions) -> Iterator[Exercise]:
    validate_options(table, ())
    outside = inside = 0
    for row in read_valid_rows(table, _MBPP, _MBPP_OPTIONAL):
        number = optional_text(row["task_id"])
        if not number.isdecimal() or int(number) not in _TEST_SPLIT:
            outside += 1
            continue
        inside += 1
        try:
            yield _make_mbpp_exercise(f"mbpp/{number}", row, options)
        except ParseError as error:
            raise make_row_error(table, f"mbpp/{number}", error) from None
    if outside and not inside:
        raise CurateError(
            f"{table.location}: no row is in the test split of MBPP (numbers 11 to 510). Give PATH?files=PATTERN to "
            "choose other files."
        )


def _make_mbpp_exercise(id: str, row: Row, options: SuiteOptions) -> Exercise:
    code = optional_text(row["code"]).replace("\r\n", "\n")
    listed = parse_text_list(row["test_list"], "test_list")
    setup = [optional_text(row["test_setup_code"]), *parse_text_list(row["test_imports"], "test_imports")]
    tests = assertions.read(
        listed, setup="\n".join(setup), defined_names=find_defined_names(code), classes=find_defined_classes(code)
    ).to_suite(_LIMITS)
    task, shown = (optional_text(row["text"]) or optional_text(row["prompt"])).strip(), "\n".join(listed)
    chat = options.prompt.build_chat(f"{task}\n\nThese are its tests:\n\n```python\n{shown}\n```", "", tests)
    return options.make_exercise(
        id, _make_mbpp_statement("\n".join([task, *listed[:1]])), chat, options.make_suite_judge(tests)
    )


def _make_mbpp_statement(task: str, entry_point: str | None = None) -> Statement:
    return Statement(f'"""\n{task}\n"""\n', "", entry_point)


@dataclass(frozen=True, slots=True)
class _TaskTests:
    """The tests of an EvalPlus task: the arguments of each call by part, and the tolerance for floats."""

    parts: tuple[tuple[str, list[Arguments]], ...]
    tolerance: float

    def make_judge(
        self, program: str, entry_point: str, options: SuiteOptions, *, preamble: str = "", prompt: str = ""
    ) -> CallJudge:
        """Return the judge with this reference program.

        preamble   code that runs before a completion; empty: none
        prompt     beginning of the program in the prompt; empty: none
        """
        parts = tuple((name, Reference(program, entry_point, tuple(map(_encode, calls)))) for name, calls in self.parts)
        seconds = options.settings.test_seconds or CALL_SECONDS
        return CallJudge(parts, self.tolerance, preamble, options.settings.extraction, prompt, seconds)


def _encode(arguments: Arguments) -> str:
    return json.dumps(encode(arguments), separators=(",", ":"))


def _is_evalplus_form(row: Row, prefix: str) -> bool:
    return row["plus_input"] is not None and str(row["task_id"]).startswith(prefix)


def _is_hub_form(row: Row) -> bool:
    return _EVALPLUS_MARK in str(row["test"] or "")


def _parse_evalplus_tests(row: Row, restore: Callable[[Arguments], Arguments] = list) -> _TaskTests:
    parts = []
    for name in ("base", "plus"):
        calls = row[f"{name}_input"] or []  # {} for a task without such inputs
        if not isinstance(calls, list) or not all(isinstance(arguments, list) for arguments in calls):
            raise ParseError(f"{name}_input is not a list of lists")
        try:
            parts.append((name, [restore(arguments) for arguments in calls]))
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise ParseError(f"{name}_input has malformed arguments: {error}") from None
    if not isinstance(row["atol"], int | float):
        raise ParseError("atol is not a number")
    if not any(calls for _, calls in parts):
        raise ParseError("the task has no inputs")
    return _TaskTests(tuple((name, calls) for name, calls in parts if calls), row["atol"])


_INPUTS = re.compile(r"^[ \t]*inputs = (\[.*\])[ \t]*$", re.MULTILINE)
_ASSERTION = re.compile(r"^[ \t]*assertion\((.*)\)[ \t]*$", re.MULTILINE)
_CONSTANTS = {"inf": float("inf"), "nan": float("nan")}


def _parse_hub_tests(program: str) -> tuple[_TaskTests, str]:
    inputs, assertion = _INPUTS.search(program), _ASSERTION.search(program)
    if inputs is None or assertion is None:
        raise ParseError("the test program has no inputs, or no assertion")
    try:
        with allow_long_integers():
            calls = _evaluate_literal(inputs[1])
            compared, *_, tolerance = ast.parse(f"f({assertion[1]})", mode="eval").body.args  # type: ignore[attr-defined]
        tolerance = ast.literal_eval(tolerance)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ParseError(f"the test program has an unsupported form: {error}") from None
    name = next((node.id for node in ast.walk(compared) if isinstance(node, ast.Name)), "")
    return _TaskTests((("plus", [list(arguments) for arguments in calls]),), tolerance), name


def _evaluate_literal(text: str) -> Any:
    tree = ast.parse(text, mode="eval").body

    class Constants(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.Constant(_CONSTANTS[node.id]) if node.id in _CONSTANTS else node

    return ast.literal_eval(Constants().visit(tree) if any(name in text for name in _CONSTANTS) else tree)


def _is_humaneval_plus(row: Row) -> bool:
    return all(row[name] for name in _HUMANEVAL_PLUS) and (_is_evalplus_form(row, "HumanEval/") or _is_hub_form(row))


def _read_humaneval_plus(table: TableFiles, options: SuiteOptions) -> Iterator[Exercise]:
    with_prompt = read_switch(table, "imports", "answer", "prompt")
    for row in read_valid_rows(table, _HUMANEVAL_PLUS, _TESTS):
        id, start, name, solution = (str(row[column]) for column in _HUMANEVAL_PLUS)
        try:
            is_evalplus = _is_evalplus_form(row, "HumanEval/")
            tests = _parse_evalplus_tests(row) if is_evalplus else _parse_hub_tests(str(row["test"]))[0]
            preamble = extract_preamble(start, name) if with_prompt else ""
        except ParseError as error:
            raise make_row_error(table, id, error) from None
        judge = tests.make_judge(start + solution, name, options, preamble=preamble, prompt=start)
        yield options.make_exercise(id, Statement(start, "", name), _make_chat(options.prompt, start, name), judge)


def _is_mbpp_plus(row: Row) -> bool:
    return _is_evalplus_form(row, "Mbpp/") or bool(row["code"] and row["test_list"] and _is_hub_form(row))


def _read_mbpp_plus(table: TableFiles, options: SuiteOptions) -> Iterator[Exercise]:
    validate_options(table, ())
    for row in read_valid_rows(table, _MBPP_PLUS, _MBPP_PLUS_OPTIONAL):
        number = str(row["task_id"]).removeprefix("Mbpp/")
        try:
            if _is_evalplus_form(row, "Mbpp/"):
                if not number.isdecimal():
                    raise ParseError("its task_id has no number")
                tests, name = _parse_evalplus_tests(row, partial(restore_types, int(number))), str(row["entry_point"])
                task, program = str(row["prompt"]).strip().strip('"').strip(), str(row["canonical_solution"])
            else:
                tests, name = _parse_hub_tests(str(row["test"]))
                first = parse_text_list(row["test_list"], "test_list")[:1]
                task, program = "\n".join([str(row["prompt"]).strip(), *first]), str(row["code"])
        except ParseError as error:
            raise make_row_error(table, f"Mbpp/{number}", error) from None
        chat = options.prompt.build_chat(task, "", Suite([], entry_point=name))
        yield options.make_exercise(
            f"Mbpp/{number}", _make_mbpp_statement(task, name), chat, tests.make_judge(program, name, options)
        )


# The JSON of MBPP+'s own file loses tuples, sets and complex numbers, which EvalPlus restores by task number.
Converter = Callable[[Any], Any]


def restore_types(task_number: int, arguments: Arguments) -> Arguments:
    change = _CHANGES.get(task_number)
    return arguments if change is None else list(change(arguments))


def _make_items_converter(change: Converter) -> Converter:
    return lambda items: [change(item) for item in items]


def _make_tuple_converter(change: Converter) -> Converter:
    return lambda items: tuple(change(item) for item in items)


def _make_argument_converter(index: int, change: Converter) -> Converter:
    return lambda items: [change(item) if number == index else item for number, item in enumerate(items)]


def _convert_lists(item: Any) -> Any:
    """Convert nested lists to tuples."""
    return tuple(map(_convert_lists, item)) if isinstance(item, list) else item


# Each converter of a call's arguments, with the numbers of its tasks.
_TASKS: list[tuple[Converter, str]] = [
    (
        _make_items_converter(tuple),
        "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809",
    ),
    (_make_items_converter(_make_items_converter(tuple)), "63 64 70 94 120 237 272 299 400 409 417 438 473 614 780"),
    (_make_items_converter(_make_tuple_converter(tuple)), "259 401 445"),
    (_make_items_converter(_make_tuple_converter(lambda item: tuple(item) if isinstance(item, list) else item)), "278"),
    (_make_items_converter(_convert_lists), "580 615 791"),
    (_make_argument_converter(0, _make_items_converter(tuple)), "75 413 444 753"),
    (_make_argument_converter(0, tuple), "250 307 405 446 617 720 763 808"),
    (_make_argument_converter(1, tuple), "106 750"),
    (_make_argument_converter(0, _make_items_converter(lambda item: set(item) if item else {})), "115"),
    (_make_argument_converter(0, lambda table: {key: tuple(value) for key, value in table.items()}), "722"),
    (_make_argument_converter(0, complex), "252"),
    (lambda arguments: [float(arguments[0]), complex(arguments[1])], "124"),
]
_CHANGES = {int(number): change for change, numbers in _TASKS for number in numbers.split()}


HUMANEVAL = RowSuite("humaneval", "HumanEval", "openai/openai_humaneval", _HUMANEVAL, _is_humaneval, _read_humaneval)
HUMANEVAL_PLUS = RowSuite(
    "humaneval+",
    "HumanEval+",
    "evalplus/humanevalplus",
    (*_HUMANEVAL_PLUS, *_TESTS),
    _is_humaneval_plus,
    _read_humaneval_plus,
)
MBPP = RowSuite(
    "mbpp", "MBPP", "google-research-datasets/mbpp?files=full/test-*", (*_MBPP, *_MBPP_OPTIONAL), _is_mbpp, _read_mbpp
)
MBPP_PLUS = RowSuite(
    "mbpp+", "MBPP+", "evalplus/mbppplus", (*_MBPP_PLUS, *_MBPP_PLUS_OPTIONAL), _is_mbpp_plus, _read_mbpp_plus
)
