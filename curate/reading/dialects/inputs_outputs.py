"""Tests of TACO, APPS and trainers that follow them: an object with `inputs`, `outputs` and, for calls, `fn_name`."""

from curate.problem import Wrapping
from curate.reading.dialects.parsed_tests import ParsedTests, function_name
from curate.reading.values import ParseError, dump_json, join_lines, parse_json
from sandbox import Case


def read(encoded: object, name: str = "input_output") -> ParsedTests:
    """Read the object or its JSON text, which error messages call `name`. Raises ParseError."""
    content = encoded if isinstance(encoded, dict) else parse_json(encoded, name)
    if not isinstance(content, dict) or not {"inputs", "outputs"} <= content.keys():
        raise ParseError(f"{name} has no inputs and outputs")
    inputs, outputs = content["inputs"], content["outputs"]
    entry_point = function_name(content.get("fn_name"), "fn_name")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise ParseError("inputs and outputs are not lists of one length")  # padding one would invent tests
    pairs = zip(inputs, outputs, strict=True)
    if entry_point is None:
        return ParsedTests(tuple(Case(join_lines(i, "an input"), join_lines(o, "an output")) for i, o in pairs))
    if not all(isinstance(arguments, list) for arguments in inputs):
        raise ParseError("the input of a call is not a list of arguments")
    cases = tuple(Case(dump_json(i, "an input"), dump_json(o, "an output")) for i, o in pairs)
    # Rows from codewars wrap each expected value in a list, and rows from leetcode do not; they look alike otherwise.
    wrapped = bool(outputs) and all(isinstance(output, list) and len(output) == 1 for output in outputs)
    return ParsedTests(cases, entry_point, "exact", Wrapping.UNDECIDED if wrapped else Wrapping.NONE)
