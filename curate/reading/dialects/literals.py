"""Evaluation of literal expressions and of calls with literal arguments, without executing code; values as literals.

In an assertion suite, literals are limited to those of `ast.literal_eval`, set(), frozenset(...), float("inf") and
float("nan"). Tests also contain `3 * 19`, `"ab" + "c"` or `tuple([1, 2])`, which this module evaluates within bounds.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from curate.reading.values import allow_long_integers

MAX_BITS = 100_000  # bits of a computed integer; tests rarely have larger ones
MAX_ITEMS = 100_000  # characters of a computed text, or items of a computed list

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COLLECTIONS = {"set": set, "frozenset": frozenset, "tuple": tuple, "list": list, "dict": dict}


class NotLiteral(ValueError):
    """An error for an expression that is not a literal."""


def evaluate(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression of literals and names. names: values by name. Raises NotLiteral."""
    try:
        return _evaluate(node, names)
    except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise NotLiteral(str(error)) from None


def _evaluate(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name) if name in names:
            return names[name]
        case ast.List(items):
            return _evaluate_items(items, names)
        case ast.Tuple(items):
            return tuple(_evaluate_items(items, names))
        case ast.Set(items):
            return set(_evaluate_items(items, names))
        case ast.Dict(keys, values) if None not in keys:
            return {
                _evaluate(key, names): _evaluate(value, names) for key, value in zip(keys, values, strict=True) if key
            }
        case ast.UnaryOp(operation, operand) if type(operation) in _UNARY:
            return _UNARY[type(operation)](_evaluate(operand, names))
        case ast.BinOp(left, operation, right) if type(operation) in _BINARY:
            return _compute(operation, _evaluate(left, names), _evaluate(right, names))
        case ast.Call(ast.Name("float"), [ast.Constant(str(text))], []):
            return float(text)
        case ast.Call(ast.Name(name), arguments, []) if name in _COLLECTIONS and len(arguments) <= 1:
            return _COLLECTIONS[name](*_evaluate_items(arguments, names))
    raise NotLiteral(type(node).__name__)


def _evaluate_items(nodes: list[ast.expr], names: Mapping[str, Any]) -> list[Any]:
    items: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            items += _evaluate(node.value, names)
        else:
            items.append(_evaluate(node, names))
    return items


def _compute(operation: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(operation, ast.Mod) and isinstance(left, str | bytes):
        raise NotLiteral("text is formatted")
    bits = [value.bit_length() for value in (left, right) if isinstance(value, int)]
    if isinstance(operation, ast.Pow) and len(bits) == 2 and bits[0] * abs(right) > MAX_BITS:
        raise NotLiteral("a large power")
    if isinstance(operation, ast.Mult):
        if len(bits) == 2 and sum(bits) > MAX_BITS:
            raise NotLiteral("a large product")
        for repeated, times in ((left, right), (right, left)):
            if hasattr(repeated, "__len__") and isinstance(times, int) and len(repeated) * times > MAX_ITEMS:
                raise NotLiteral("a long repetition")
    return _BINARY[type(operation)](left, right)


def to_literal(value: Any) -> str:
    """Format a value as a literal for the sandbox. Deterministic. Raises NotLiteral."""
    try:
        with allow_long_integers():
            return _format_literal(value)
    except (RecursionError, ValueError) as error:
        raise NotLiteral(str(error)) from None


def _format_literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        # Python reads 1e999 as infinity.
        return 'float("nan")' if math.isnan(value) else f"{'-' * (value < 0)}1e999"
    if isinstance(value, complex) and not (math.isfinite(value.real) and math.isfinite(value.imag)):
        raise NotLiteral("a complex number that is not finite")
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_format_literal, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_format_literal, value))}{',' * (len(value) == 1)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_format_literal(key)}: {_format_literal(item)}' for key, item in value.items())}}}"
    if isinstance(value, set | frozenset):
        # The iteration order of a set differs between processes.
        items = f"{{{', '.join(sorted(map(_format_literal, value)))}}}" if value else ""
        return f"frozenset({items})" if isinstance(value, frozenset) else items or "set()"
    raise NotLiteral(type(value).__name__)


@dataclass(frozen=True, slots=True)
class LiteralCall:
    """A call of a function, such as `f` or `Solution().f`. arguments: values by position or keyword"""

    function: str
    arguments: Mapping[int | str, Any]

    @property
    def text(self) -> str:
        """The call as Python code."""
        arguments = (
            to_literal(value) if isinstance(name, int) else f"{name}={to_literal(value)}"
            for name, value in self.arguments.items()
        )
        return f"{self.function}({', '.join(arguments)})"


def parse_call(source: str) -> LiteralCall:
    """Parse a call with literal arguments. Raises NotLiteral for other arguments."""
    with allow_long_integers():
        node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Call)
    arguments: dict[int | str, Any] = {name: evaluate(value, {}) for name, value in enumerate(node.args)}
    arguments |= {str(keyword.arg): evaluate(keyword.value, {}) for keyword in node.keywords}
    return LiteralCall(ast.unparse(node.func), arguments)
