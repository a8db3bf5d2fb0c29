"""A forgotten case: a branch is never or always taken, or one of several conditions is missing."""

import ast
from collections.abc import Iterator


def mutate(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.If(body=body, orelse=orelse):
            for taken in (False, True):
                yield ast.If(ast.Constant(taken), body, orelse)
        case ast.IfExp(body=one, orelse=other):
            yield one
            yield other
        case ast.BoolOp(op=op, values=values):
            for place in range(len(values)):
                left = values[:place] + values[place + 1 :]
                yield ast.BoolOp(op, left) if len(left) > 1 else left[0]
