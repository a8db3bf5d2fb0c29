"""One operation in place of another, such as plus for minus, `or` for `and`, or max for min."""

import ast
from collections.abc import Iterator

_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.FloorDiv,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_FUNCTIONS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "bisect": "bisect_left",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
    "floor": "ceil",
    "ceil": "floor",
}


def mutate(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS and not _of_text(left, right):
            yield ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _OPERATORS and not _of_text(value):
            yield ast.AugAssign(target, _OPERATORS[type(op)](), value)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in _FUNCTIONS:
            yield ast.Call(ast.Name(_FUNCTIONS[name], ast.Load()), arguments, keywords)
        case ast.Call(func=ast.Attribute(value=module, attr=name), args=arguments) if name in _FUNCTIONS:
            yield ast.Call(ast.Attribute(module, _FUNCTIONS[name], ast.Load()), arguments, node.keywords)


def _of_text(*operands: ast.expr) -> bool:
    """Say whether an operand is text or a list. These have no minus, so the mutant would fail on every test."""
    return any(
        isinstance(operand, ast.JoinedStr | ast.List | ast.ListComp)
        or (isinstance(operand, ast.Constant) and isinstance(operand.value, str | bytes))
        for operand in operands
    )
