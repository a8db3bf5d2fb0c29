"""A list of objects with `input` and `output`, one for each test, in one of these forms:

LiveCodeBench    testtype "stdin" or "functional", the latter with one JSON value per line and argument
PrimeIntellect   type "stdin_stdout" or "function_call", the latter with a list of arguments and a name, `fn_name`
LeetCode         a function's arguments have names: `nums = [1, 2], k = 3`
codeforces       no further fields: the tests use stdin, unless the problem names a function

Tests for standard input may also have `stdin` and `stdout`.
"""

from collections.abc import Mapping
from typing import Any

from curate.reading.dialects import named_arguments
from curate.reading.dialects.parsed_tests import ParsedTests, function_name
from curate.reading.signature import argument_mismatch, sole_function_name
from curate.reading.values import ParseError, dump_json, join_lines, parse_json, shorten
from sandbox import Case

_STDIN, _ARGUMENTS, _LINES = "standard input", "a list of arguments", "one argument per line"
_NAMED = "named arguments"
_KINDS = {"stdin": _STDIN, "stdin_stdout": _STDIN, "function_call": _ARGUMENTS, "functional": _LINES}


def read(encoded: object, entry_point: str | None = None, starter_code: str = "") -> ParsedTests:
    """Read tests, which must all be of one kind and for one function; if they are not, some were added by mistake.

    entry_point   the function that the problem names outside of its tests
    starter_code  the starter code, which helps to recognise tests that belong to another problem

    Raises ParseError.
    """
    if not isinstance(encoded, list):
        raise ParseError("tests are not a list")
    encoded = [_with_usual_names(test) for test in encoded]
    kinds = {_kind(test, entry_point, starter_code) for test in encoded}
    if len(kinds) > 1:
        raise ParseError("tests of several kinds or for several functions: some belong to another problem")
    kind, function = kinds.pop() if kinds else (_STDIN, None)
    if kind == _STDIN:
        return ParsedTests(
            tuple(Case(join_lines(t["input"], "an input"), join_lines(t["output"], "an output")) for t in encoded)
        )
    if function is None:
        raise ParseError("tests of a function whose name is not given")
    case = {_ARGUMENTS: _arguments, _LINES: _lines, _NAMED: _named}[kind]
    cases = tuple(case(test, function, starter_code) for test in encoded)
    return ParsedTests(cases, function, "lcb" if kind == _LINES else "exact")


def _with_usual_names(test: Any) -> Any:
    if not isinstance(test, Mapping) or "input" in test or not {"stdin", "stdout"} <= test.keys():
        return test
    return {"type": "stdin", "input": test["stdin"], "output": test["stdout"]}


def _kind(test: Any, entry_point: str | None, starter_code: str) -> tuple[str, str | None]:
    if not isinstance(test, Mapping) or not {"input", "output"} <= test.keys():
        raise ParseError("a test has no input and output")
    word = test.get("type") or test.get("testtype")
    if word is None and not entry_point:
        entry_point = _function_with_names(test["input"], starter_code)
    if word is None and entry_point:
        kind: str | None = _LINES if isinstance(test["input"], str) else _ARGUMENTS
    else:
        kind = _STDIN if word is None else _KINDS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise ParseError(f"a test of type {shorten(word)}")
    if kind == _STDIN:
        if entry_point:
            raise ParseError(f"a test for standard input in a problem that asks for {entry_point}")
        return kind, None
    if named_arguments.has_named_arguments(test["input"]):
        kind = _NAMED
    metadata = test.get("metadata")
    own = metadata.get("func_name") if isinstance(metadata, Mapping) else None
    function = function_name(test.get("fn_name") or own or entry_point, "fn_name")
    return kind, function or sole_function_name(starter_code)


def _function_with_names(written: object, starter_code: str) -> str | None:
    """Return the only function of the starter code if the input names exactly its parameters."""
    function = sole_function_name(starter_code)
    if function is None or not isinstance(written, str) or not named_arguments.has_named_arguments(written):
        return None
    try:
        named_arguments.parse_arguments(written, function, starter_code)
    except ParseError:
        return None
    return function


def _arguments(test: Mapping[str, Any], function: str, starter_code: str) -> Case:
    arguments, expected = test["input"], test["output"]
    if isinstance(arguments, str):  # open-r1 writes both sides as JSON text
        arguments, expected = parse_json(arguments, "an input"), parse_json(expected, "an output")
    if not isinstance(arguments, list | tuple):
        raise ParseError("the input of a call is not a list of arguments")
    _fits(starter_code, function, list(arguments))
    return Case(dump_json(arguments, "an input"), dump_json(expected, "an output"))


def _lines(test: Mapping[str, Any], function: str, starter_code: str) -> Case:
    """Return the lines as text, so that long integers and decimals stay as they are."""
    written, expected = test["input"], test["output"]
    if not isinstance(written, str) or not isinstance(expected, str):
        raise ParseError("a test has no input and output text")
    arguments = written.strip().split("\n") if written.strip() else []
    _fits(starter_code, function, [parse_json(argument, "an argument") for argument in arguments])
    parse_json(expected, "an expected value")  # some are error messages: "Error: list index out of range"
    return Case(f"[{', '.join(arguments)}]", expected)


def _named(test: Mapping[str, Any], function: str, starter_code: str) -> Case:
    arguments = named_arguments.parse_arguments(test["input"], function, starter_code)
    _fits(starter_code, function, arguments)
    expected = named_arguments.decode_value(test["output"])
    return Case(dump_json(arguments, "an input"), dump_json(expected, "an output"))


def _fits(starter_code: str, function: str, arguments: list[object]) -> None:
    if wrong := argument_mismatch(starter_code, function, arguments):
        raise ParseError(f"a test of another problem: {wrong}")
