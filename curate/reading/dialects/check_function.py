"""Tests that trainers copied from LeetCodeDataset: a function `check(candidate)` made of examples becomes calls.

An example is `assert candidate(nums = [1, 2]) == 3`. The function is read, not executed; ParseError is raised if it
contains anything else. assertions.py reads everything else, and the sources that publish tests as Python code.
"""

import ast
import warnings

from curate.reading.dialects.named_arguments import order_arguments
from curate.reading.dialects.parsed_tests import ParsedTests, function_name
from curate.reading.signature import parameter_names
from curate.reading.values import ParseError, allow_long_integers, dump_json, shorten
from sandbox import Case


def read(code: object, entry_point: str | None = None, starter_code: str = "") -> ParsedTests:
    """Read the assertions.

    entry_point  name of the function; None: the argument of the call at the end of the text, `check(Solution().f)`

    Raises ParseError.
    """
    if not isinstance(code, str):
        raise ParseError(f"the check is {type(code).__name__}, not text")
    try:
        with allow_long_integers(), warnings.catch_warnings(action="ignore"):
            tree = ast.parse(code)
            check = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"), None)
            if check is None or len(check.args.args) != 1:
                raise ParseError("there is no function check(candidate)")
            function = entry_point or _called_with(tree)
            if function is None:
                raise ParseError("the function that check is for is not named")
            order = parameter_names(starter_code, function)
            cases = [_case(node, check.args.args[0].arg, order) for node in check.body if not _nothing(node)]
    except ParseError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ParseError(f"the check cannot be read: {shorten(error)}") from None
    return ParsedTests(tuple(cases), function, "exact")


def _called_with(tree: ast.Module) -> str | None:
    """Return the name f if the text ends with check(f) or check(Solution().f)."""
    match tree.body[-1]:
        case ast.Expr(ast.Call(ast.Name("check"), [argument])):
            return function_name(ast.unparse(argument), "the argument of check")
    return None


def _nothing(node: ast.stmt) -> bool:
    """Say whether this is a statement without effect: a docstring, `pass` or `assert True`."""
    match node:
        case ast.Pass() | ast.Expr(ast.Constant()) | ast.Assert(ast.Constant(True)):
            return True
    return False


def _case(node: ast.stmt, candidate: str, order: list[str] | None) -> Case:
    match node:
        case ast.Assert(ast.Compare(ast.Call(ast.Name(name), positional, keywords), [ast.Eq()], [expected])) if (
            name == candidate
        ):
            values = [ast.literal_eval(argument) for argument in positional]
            named = [(keyword.arg, ast.literal_eval(keyword.value)) for keyword in keywords]
            arguments = order_arguments(values, named, order)
            return Case(dump_json(arguments, "an input"), dump_json(ast.literal_eval(expected), "an output"))
    raise ParseError(f"an assertion that is not an example: {shorten(ast.unparse(node))}")
