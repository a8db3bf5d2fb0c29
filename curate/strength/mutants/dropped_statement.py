"""A forgotten line: for example, nothing is appended, added or sorted, or a `break` or `continue` is missing.

Calls of print stay, because a program without output fails at the first test, whatever the test is.
"""

import ast
from collections.abc import Iterator


def mutate(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
