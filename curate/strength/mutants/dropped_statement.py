"""A line that was forgotten: nothing is appended, added or sorted, a loop neither left nor cut short.

What is printed stays: a program without its output fails the first test, whatever that is.
"""

import ast
from collections.abc import Iterator


def instead(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
