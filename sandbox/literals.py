"""Parser of the Python literals of assertion suites, and of calls with literal arguments.

Literals are those of `ast.literal_eval`, and `set()`, `frozenset(...)`, `float("inf")`, `float("nan")` and
`complex(...)`. The parser executes no code. The texts come from the suite, never from programs.
"""

import ast
import warnings
from collections.abc import Callable, Collection
from typing import Any

_CONSTRUCTORS: dict[str, Callable[..., Any]] = {"set": set, "frozenset": frozenset, "float": float, "complex": complex}
_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_PREVIEW_CHARS = 80  # maximum length of a text in a message


def parse_literal(text: str) -> Any:
    """Parse a literal. Raises ValueError, with a message that begins with "must be"."""
    try:
        return _evaluate(_parse(text))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError):
        raise ValueError(f"must be a Python literal, not {text[:_PREVIEW_CHARS]!r}") from None


def check_call(text: str, names: Collection[str]) -> None:
    """Check that a text is a call with literal arguments: `f((1, 2), k=3)` or `Solution().f([1])`.

    names   the functions and classes that may be called

    Raises ValueError, with a message that begins with "must be".
    """
    try:
        tree = _parse(text)
        root = _find_root_name(tree)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError):
        raise ValueError(f"must be a call with literal arguments, not {text[:_PREVIEW_CHARS]!r}") from None
    if root not in names:
        raise ValueError(f"must be a call of one of {', '.join(sorted(names))}, not of {root!r}")


def _parse(text: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SyntaxWarning for invalid escapes, such as "\d"
        return ast.parse(text.strip(), mode="eval").body


def _find_root_name(call: ast.expr) -> str:
    """Return the first name of a call with literal arguments: f for `f(3).g()`. Raises ValueError otherwise."""
    if not isinstance(call, ast.Call):
        raise ValueError("not a call")
    node: ast.expr = call
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call):
            for argument in (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg)):
                _evaluate(argument)
            if any(keyword.arg is None for keyword in node.keywords):
                raise ValueError("unpacked arguments")
            node = node.func
        elif isinstance(node, ast.Attribute):
            node = node.value
        else:
            raise ValueError("not a call of a name")
    return node.id


def _evaluate(node: ast.expr | None) -> Any:
    match node:
        case ast.Constant(value) if isinstance(value, _ATOMS):
            return value
        case ast.Tuple(elts):
            return tuple(map(_evaluate, elts))
        case ast.List(elts):
            return list(map(_evaluate, elts))
        case ast.Set(elts):
            return set(map(_evaluate, elts))
        case ast.Dict(keys, values):
            return dict(zip(map(_evaluate, keys), map(_evaluate, values), strict=True))
        case ast.UnaryOp(ast.USub(), operand):
            return -_evaluate_number(operand)
        case ast.UnaryOp(ast.UAdd(), operand):
            return +_evaluate_number(operand)
        case ast.BinOp(left, ast.Add(), right):
            return _evaluate_number(left) + _evaluate_imaginary(right)
        case ast.BinOp(left, ast.Sub(), right):
            return _evaluate_number(left) - _evaluate_imaginary(right)
        case ast.Call(ast.Name(name), args, []) if name in _CONSTRUCTORS:
            return _CONSTRUCTORS[name](*map(_evaluate, args))
    raise ValueError("not a literal")


def _evaluate_number(node: ast.expr) -> Any:
    value = _evaluate(node)
    if type(value) not in (int, float, complex):
        raise ValueError("not a number")
    return value


def _evaluate_imaginary(node: ast.expr) -> complex:
    if isinstance(node, ast.Constant) and type(node.value) is complex:
        return node.value
    raise ValueError("a sum that is not a complex number")
