"""One too many or one too few, in bounds of ranges and slices, in indices, or in the rounds of a loop."""

import ast
from collections.abc import Iterator


def mutate(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(id="range"), args=[stop], keywords=[]):
            for arguments in ([shift_expression(stop, 1)], [shift_expression(stop, -1)], [ast.Constant(1), stop]):
                yield ast.Call(node.func, arguments, [])
        case ast.Call(func=ast.Name(id="range"), args=[start, stop, *step], keywords=[]):
            for bounds in (
                [start, shift_expression(stop, 1)],
                [start, shift_expression(stop, -1)],
                [shift_expression(start, 1), stop],
            ):
                yield ast.Call(node.func, [*bounds, *step], [])
        case ast.Subscript(slice=ast.Slice(lower, upper, step)):
            if upper is not None:
                for by in (1, -1):
                    yield ast.Subscript(node.value, ast.Slice(lower, shift_expression(upper, by), step), node.ctx)
            if lower is not None:
                yield ast.Subscript(node.value, ast.Slice(shift_expression(lower, 1), upper, step), node.ctx)
        case ast.Subscript(slice=ast.Name() | ast.BinOp() as index, ctx=ast.Load()):
            for by in (1, -1):
                yield ast.Subscript(node.value, shift_expression(index, by), node.ctx)
        case ast.For(iter=iterable) if not _is_range(iterable):
            rounds = ast.Call(ast.Name("list", ast.Load()), [iterable], [])
            for part in (ast.Slice(ast.Constant(1), None, None), ast.Slice(None, ast.Constant(-1), None)):
                yield ast.For(node.target, ast.Subscript(rounds, part, ast.Load()), node.body, node.orelse, lineno=0)


def shift_expression(value: ast.expr, by: int) -> ast.expr:
    """Return the expression for value + by, as a person would write it."""
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return ast.Constant(value.value + by)
    return ast.BinOp(value, ast.Add() if by > 0 else ast.Sub(), ast.Constant(abs(by)))


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
