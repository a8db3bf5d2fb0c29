"""Take the expected value out of an assertion such as `assert f([1, 2], k=3) == 7`.

The call and the value must be literals. The value is then compared outside of the submission's process, by Python's
`==`. Assertions that differ from that, if only in how they treat 1 and True, stay as they are.
"""

import ast
from collections.abc import Callable, Collection, Mapping
from typing import Any

from curate.reading.assertions.literals import NotLiteral, evaluate, to_literal
from sandbox import Case

_EQUATIONS = {"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual"}

# For each function that contains assertions: does f(call, expected, 0) say just that the two are equal?
Helpers = Mapping[str, Callable[[Any], bool]]


def extract_case(
    node: ast.stmt, names: Collection[str], values: Mapping[str, Any], calls: Mapping[str, str], helpers: Helpers
) -> Case | None:
    """Return the case that says the same as a statement, or None if there is none.

    names    names that the submission defines
    values   values of names that were assigned before
    calls    calls of the submission, as text, whose results were assigned to names before
    helpers  functions that contain assertions
    """
    says_equal: Callable[[Any], bool] = always_compares_exactly
    match node:
        case ast.Expr(ast.Call(ast.Name(name), [left, right, ast.Constant(0)], [])) if name in helpers:
            sides, says_equal = (left, right), helpers[name]
        case _ if (equation := _equation(node)) is not None:
            sides = equation
        case _:
            return None
    for side, other in (sides, sides[::-1]):
        try:
            call = calls[side.id] if isinstance(side, ast.Name) and side.id in calls else call_text(side, names, values)
            expected = evaluate(other, values)
            return Case(call, to_literal(expected)) if says_equal(expected) else None
        except NotLiteral:
            continue
    return None


def always_compares_exactly(expected: Any) -> bool:
    """Say that an expected value is compared by `==`."""
    return True


def never_compares_exactly(expected: Any) -> bool:
    """Say that an expected value may be compared in another way than by `==`."""
    return False


def _equation(node: ast.stmt) -> tuple[ast.expr, ast.expr] | None:
    """Return the two sides that the statement says are equal, if that is all it says."""
    match node:
        case ast.Assert(ast.Compare(left, [ast.Eq()], [right])):
            return left, right
        case ast.Assert(ast.Compare(left, [ast.Is()], [ast.Constant(None) as right])):
            return left, right  # values are data here, and no data but None is equal to None
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("self"), name), [left, right, *_])) if name in _EQUATIONS:
            return left, right
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("self"), "assertIsNone"), [left, *_])):
            return left, ast.Constant(None)
    return None


def call_text(node: ast.expr, names: Collection[str], values: Mapping[str, Any]) -> str:
    """Return a call of the submission with literals as arguments, as the sandbox reads it.

    names   names that the submission defines
    values  values of names that were assigned before

    Raises NotLiteral for anything else.
    """
    if not isinstance(node, ast.Call):
        raise NotLiteral("no call")
    arguments = [to_literal(argument) for argument in evaluate(ast.List(node.args), values)]
    for keyword in node.keywords:
        if keyword.arg is None:
            raise NotLiteral("unpacked keywords")
        arguments.append(f"{keyword.arg}={to_literal(evaluate(keyword.value, values))}")
    return f"{_function(node.func, names)}({', '.join(arguments)})"


def _function(node: ast.expr, names: Collection[str]) -> str:
    match node:
        case ast.Name(name) if name in names:
            return name
        case ast.Attribute(ast.Call(ast.Name(name), [], []), method) if name in names:
            return f"{name}().{method}"
    raise NotLiteral("not a function of the submission")
