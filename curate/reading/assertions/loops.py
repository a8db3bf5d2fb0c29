"""Take examples out of a loop over literals, such as `for x, y in [(1, 2), (3, 4)]: assert f(x) == y`."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from curate.reading.assertions.literals import NotLiteral, evaluate, to_literal

MAX_ITERATIONS = 20_000  # turns of a loop


def evaluate_iterations(node: ast.For, values: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the values that each turn of a loop gives to its variables; None if they are not known."""
    if node.orelse or any(isinstance(inner, ast.Break | ast.Continue) for inner in ast.walk(node)):
        return None
    try:
        items = _items(node.iter, values)
        return [_bound(node.target, item) for item in items] if len(items) <= MAX_ITERATIONS else None
    except (NotLiteral, ValueError, TypeError):
        return None


def restrict_loop(node: ast.For, items: Sequence[Mapping[str, Any]]) -> ast.For:
    """Return the loop with only some of its turns. Raises NotLiteral.

    items: the values that these turns give to the loop's variables
    """
    names = list(items[0])
    rows = ", ".join(f"({', '.join(to_literal(item[name]) for name in names)},)" for item in items)
    (loop,) = ast.parse(f"for ({', '.join(names)},) in [{rows}]: pass").body
    assert isinstance(loop, ast.For)
    loop.body = node.body
    return loop


def _items(node: ast.expr, values: Mapping[str, Any]) -> list[Any]:
    match node:
        case ast.Call(ast.Name("enumerate"), [inner], []):
            return list(enumerate(_items(inner, values)))
        case ast.Call(ast.Name("zip"), columns, []):
            return list(zip(*(_items(column, values) for column in columns), strict=False))
        case ast.Call(ast.Attribute(inner, "items"), [], []):
            return list(evaluate(inner, values).items())
    value = evaluate(node, values)
    if not isinstance(value, list | tuple | dict):
        raise NotLiteral("not a list")
    return list(value)


def _bound(target: ast.expr, item: Any) -> dict[str, Any]:
    match target:
        case ast.Name(name):
            return {name: item}
        case ast.Tuple(targets) | ast.List(targets):
            pairs = zip(targets, item, strict=True)
            return {name: value for inner, part in pairs for name, value in _bound(inner, part).items()}
    raise NotLiteral("a target that is not a name")
