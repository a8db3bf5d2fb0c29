"""Tests as JSON values, for standard input or for calls of a function, in one of two formats:

an object of two lists, `inputs` and `outputs`, with `fn_name` for calls: TACO, APPS and trainers with the same format

a list of objects with `input` and `output`, one for each test, in one of these forms:
  LiveCodeBench    testtype "stdin" or "functional", the latter with one JSON value per line and argument
  PrimeIntellect   type "stdin_stdout" or "function_call", the latter with a list of arguments and a name, `fn_name`
  codeforces       no further fields: the tests use stdin, unless the problem names a function
  others           `stdin` and `stdout` instead of `input` and `output`

In both formats, calls may have named arguments as in LeetCode, `nums = [1, 2], k = 3`, with values in JSON or Python.
"""

import ast
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curate.problem import Wrapping
from curate.reading.dialects import ParsedTests, parse_function_name
from curate.reading.signature import find_argument_mismatch, find_parameter_names, find_sole_function_name
from curate.reading.values import (
    ParseError,
    allow_long_integers,
    dump_json,
    join_lines,
    parse_json,
    parse_json_or_literal,
    shorten,
)
from sandbox import Case

_KINDS = {"stdin": "stdin", "stdin_stdout": "stdin", "function_call": "arguments", "functional": "lines"}
_NAME = re.compile(r"\s*[^\W\d]\w*\s*=(?!=)")


class SignatureMismatch(ParseError):
    """An error for a test with other argument names than the parameters of its function."""


def read_columns(encoded: object, name: str = "input_output") -> ParsedTests:
    """Read an object of two lists, or its JSON. name: name of the object, for error messages. Raises ParseError."""
    content = encoded if isinstance(encoded, dict) else parse_json(encoded, name)
    if not isinstance(content, dict) or not {"inputs", "outputs"} <= content.keys():
        raise ParseError(f"{name} has no inputs and outputs")
    inputs, outputs = content["inputs"], content["outputs"]
    entry_point = parse_function_name(content.get("fn_name"), "fn_name")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise ParseError("inputs and outputs are not lists of one length")
    if entry_point is None:
        return ParsedTests(tuple(map(_make_stdin_case, inputs, outputs)))
    if not all(isinstance(arguments, list) for arguments in inputs):
        raise ParseError("the input of a call is not a list of arguments")
    # TACO's rows from codewars wrap each expected value in a list; those from leetcode, of the same form, do not.
    wrapped = bool(outputs) and all(isinstance(output, list) and len(output) == 1 for output in outputs)
    wrapping = Wrapping.UNDECIDED if wrapped else Wrapping.NONE
    return ParsedTests(tuple(map(_make_call_case, inputs, outputs)), entry_point, "exact", wrapping)


def read_named_columns(content: Mapping[str, Any], entry_point: str | None, starter_code: str) -> ParsedTests:
    """Read an object of two lists, in which arguments may have names. Raises ParseError.

    entry_point   the function that the problem names outside of its tests; None for none
    starter_code  code with the signature, which determines the order of named arguments; empty to keep their order
    """
    tests = {**content, "fn_name": entry_point} if entry_point else dict(content)
    function = parse_function_name(tests.get("fn_name"), "fn_name")
    if function and are_named_arguments(tests.get("inputs")):
        outputs = tests.get("outputs")
        tests["inputs"] = [_parse_named_arguments(text, function, starter_code) for text in tests["inputs"]]
        tests["outputs"] = [*map(_parse_value, outputs)] if isinstance(outputs, list) else outputs
    return read_columns(tests, "tests")


def are_named_arguments(column: object) -> bool:
    """Return whether this is a nonempty list of texts such as `nums = [1, 2], k = 3`."""
    return isinstance(column, list) and column != [] and all(map(_has_names, column))


def parse_json_tests(encoded: object, entry_point: str | None = None, starter_code: str = "") -> ParsedTests:
    """Read a list of objects. Raises ParseError unless all are of one kind and for one function.

    entry_point   the function that the problem names outside of its tests; None for none
    starter_code  code with the signature that all tests must fit; empty for none
    """
    if not isinstance(encoded, list):
        raise ParseError("tests are not a list")
    tests = [_rename_stdin_fields(test) for test in encoded]
    kinds = {_classify_test(test, entry_point, starter_code) for test in tests}
    if len(kinds) > 1:
        raise ParseError("tests of several kinds or for several functions: some belong to another problem")
    kind, function = kinds.pop() if kinds else ("stdin", None)
    if kind == "stdin":
        return ParsedTests(tuple(_make_stdin_case(test["input"], test["output"]) for test in tests))
    if function is None:
        raise ParseError("tests of a function whose name is not given")
    read_case = _READERS[kind]
    cases = tuple(read_case(test["input"], test["output"], function, starter_code) for test in tests)
    return ParsedTests(cases, function, "lcb" if kind == "lines" else "exact")


def _rename_stdin_fields(test: Any) -> Any:
    if not isinstance(test, Mapping) or "input" in test or not {"stdin", "stdout"} <= test.keys():
        return test
    return {"type": "stdin", "input": test["stdin"], "output": test["stdout"]}


def _classify_test(test: Any, entry_point: str | None, starter_code: str) -> tuple[str, str | None]:
    """Return "stdin" or a key of _READERS, and the function that the test calls; None if unknown."""
    if not isinstance(test, Mapping) or not {"input", "output"} <= test.keys():
        raise ParseError("a test has no input and output")
    stated_type = test.get("type") or test.get("testtype")
    if stated_type is None and not entry_point:
        entry_point = _find_function_by_arguments(test["input"], starter_code)
    if stated_type is None and entry_point:
        kind: str | None = "lines" if isinstance(test["input"], str) else "arguments"
    else:
        kind = "stdin" if stated_type is None else _KINDS.get(stated_type) if isinstance(stated_type, str) else None
    if kind is None:
        raise ParseError(f"a test of type {shorten(stated_type)}")
    if kind == "stdin":
        if entry_point:
            raise ParseError(f"a test for standard input in a problem that asks for {entry_point}")
        return kind, None
    if _has_names(test["input"]):
        kind = "names"
    metadata = test.get("metadata")
    own = metadata.get("func_name") if isinstance(metadata, Mapping) else None
    function = parse_function_name(test.get("fn_name") or own or entry_point, "fn_name")
    return kind, function or find_sole_function_name(starter_code)


def _find_function_by_arguments(arguments: object, starter_code: str) -> str | None:
    """Return the only function in the starter code if its parameters have the names of the arguments."""
    function = find_sole_function_name(starter_code)
    if function is None or not isinstance(arguments, str) or not _has_names(arguments):
        return None
    try:
        _parse_named_arguments(arguments, function, starter_code)
    except ParseError:
        return None
    return function


def _make_stdin_case(stdin: object, stdout: object) -> Case:
    return Case(join_lines(stdin, "an input"), join_lines(stdout, "an output"))


def _make_call_case(arguments: object, expected: object) -> Case:
    return Case(dump_json(arguments, "an input"), dump_json(expected, "an output"))


def _read_argument_list(arguments: Any, expected: Any, function: str, starter_code: str) -> Case:
    # open-r1 writes arguments and expected value as JSON text.
    if isinstance(arguments, str):
        arguments, expected = parse_json(arguments, "an input"), parse_json(expected, "an output")
    if not isinstance(arguments, list | tuple):
        raise ParseError("the input of a call is not a list of arguments")
    _check_signature(starter_code, function, list(arguments))
    return _make_call_case(arguments, expected)


def _read_argument_lines(lines: Any, expected: Any, function: str, starter_code: str) -> Case:
    """Read one argument per line. Keeps the text of values, so long integers and decimals lose no digits."""
    if not isinstance(lines, str) or not isinstance(expected, str):
        raise ParseError("a test has no input and output text")
    arguments = lines.strip().split("\n") if lines.strip() else []
    _check_signature(starter_code, function, [parse_json(argument, "an argument") for argument in arguments])
    # Some expected values are error messages, such as "Error: list index out of range".
    parse_json(expected, "an expected value")
    return Case(f"[{', '.join(arguments)}]", expected)


def _read_named_arguments(text: Any, expected: Any, function: str, starter_code: str) -> Case:
    arguments = _parse_named_arguments(text, function, starter_code)
    _check_signature(starter_code, function, arguments)
    return _make_call_case(arguments, _parse_value(expected))


_READERS: dict[str, Callable[[Any, Any, str, str], Case]] = {
    "arguments": _read_argument_list,
    "lines": _read_argument_lines,
    "names": _read_named_arguments,
}


def _check_signature(starter_code: str, function: str, arguments: list[object]) -> None:
    if mismatch := find_argument_mismatch(starter_code, function, arguments):
        raise ParseError(f"a test of another problem: {mismatch}")


def _has_names(arguments: object) -> bool:
    """Return whether this is text that begins with a name and an equals sign, so not JSON."""
    return isinstance(arguments, str) and _NAME.match(arguments) is not None


def _parse_named_arguments(text: str, function: str, starter_code: str) -> list[Any]:
    try:
        with allow_long_integers(), warnings.catch_warnings(action="ignore"):
            match ast.parse(f"f({text}\n)", mode="eval").body:
                case ast.Call(ast.Name("f"), [], keywords):
                    named = [(keyword.arg, _evaluate_literal(keyword.value)) for keyword in keywords]
                    return order_arguments([], named, find_parameter_names(starter_code, function))
    except ParseError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ParseError(f"an input is not a list of named values: {shorten(error)}") from None
    raise ParseError(f"an input is not a list of named values: {shorten(text)}")


def order_arguments(
    positional: Sequence[Any], named: Sequence[tuple[str | None, Any]], order: Sequence[str] | None
) -> list[Any]:
    """Return the arguments of a call in the order of the parameters. Raises SignatureMismatch.

    order: names of the parameters; None if unknown, so that named arguments keep their order
    """
    values = dict(named)
    names = [*values] if order is None else order[len(positional) :]
    if None in values or values.keys() != set(names) or len(values) < len(named):
        raise SignatureMismatch(f"a test of another problem: it passes {', '.join(str(name) for name, _ in named)}")
    return [*positional, *(values[name] for name in names)]


def _parse_value(value: object) -> Any:
    """Return the expected value of a call; parse text as JSON or a Python literal. Raises ParseError."""
    return parse_json_or_literal(value, "an expected value") if isinstance(value, str) else value


def _evaluate_literal(node: ast.expr) -> Any:
    return ast.literal_eval(_ConstantReplacer().visit(node))


class _ConstantReplacer(ast.NodeTransformer):
    """A transformer that replaces JSON's true, false and null by Python's constants."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        constants = {"true": True, "false": False, "null": None}
        return ast.Constant(constants[node.id]) if node.id in constants else node
