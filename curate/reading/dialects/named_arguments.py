"""Arguments of a call as LeetCode writes them: `nums = [1, 2], k = 3`, with values of JSON or Python."""

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from curate.reading.signature import parameter_names
from curate.reading.values import ParseError, allow_long_integers, parse_json_or_literal, shorten

_BEGINNING = re.compile(r"\s*[^\W\d]\w*\s*=(?!=)")


class SignatureMismatch(ParseError):
    """A test that is about a function with other parameters."""


def has_named_arguments(written: object) -> bool:
    """Return whether this is text that begins with a name and an equals sign, as no JSON does."""
    return isinstance(written, str) and _BEGINNING.match(written) is not None


def all_named(column: object) -> bool:
    """Return whether this is a list with at least one text, all of which are written so."""
    return isinstance(column, list) and column != [] and all(map(has_named_arguments, column))


def parse_arguments(written: str, function: str, starter_code: str) -> list[Any]:
    """Return the arguments in the order of the function's parameters. Raises ParseError.

    starter_code: shows the parameters; if it does not, the order stays
    """
    try:
        with allow_long_integers(), warnings.catch_warnings(action="ignore"):
            match ast.parse(f"f({written}\n)", mode="eval").body:
                case ast.Call(ast.Name("f"), [], keywords):
                    named = [(keyword.arg, _literal(keyword.value)) for keyword in keywords]
                    return order_arguments([], named, parameter_names(starter_code, function))
    except ParseError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ParseError(f"an input is not a list of named values: {shorten(error)}") from None
    raise ParseError(f"an input is not a list of named values: {shorten(written)}")


def order_arguments(
    positional: Sequence[Any], named: Sequence[tuple[str | None, Any]], order: Sequence[str] | None
) -> list[Any]:
    """Return the values of a call in the order of the parameters; None: as they are. Raises SignatureMismatch."""
    values = dict(named)
    names = [*values] if order is None else order[len(positional) :]
    if None in values or values.keys() != set(names) or len(values) < len(named):
        raise SignatureMismatch(f"a test of another problem: it passes {', '.join(str(name) for name, _ in named)}")
    return [*positional, *(values[name] for name in names)]


def decode_tests(tests: Mapping[str, Any], function: str, starter_code: str) -> dict[str, Any]:
    """Return tests whose `inputs` are all written so, with lists of arguments and with the values of `outputs`."""
    outputs = tests.get("outputs")
    return {
        **tests,
        "inputs": [parse_arguments(written, function, starter_code) for written in tests["inputs"]],
        "outputs": [*map(decode_value, outputs)] if isinstance(outputs, list) else outputs,
    }


def decode_value(written: object) -> Any:
    """Return the value that a call is to return, from JSON, from a Python literal or as it is. Raises ParseError."""
    return parse_json_or_literal(written, "an expected value") if isinstance(written, str) else written


def _literal(node: ast.expr) -> Any:
    return ast.literal_eval(_WithPythonConstants().visit(node))


class _WithPythonConstants(ast.NodeTransformer):
    """Replaces the names of JSON's constants by these constants."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        constants = {"true": True, "false": False, "null": None}
        return ast.Constant(constants[node.id]) if node.id in constants else node
