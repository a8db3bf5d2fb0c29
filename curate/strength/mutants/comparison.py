"""A wrong comparison: a boundary value is on the wrong side, or the comparison is reversed."""

import ast
from collections.abc import Iterator

_INSTEAD: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq, ast.Lt, ast.Gt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}


def mutate(node: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Compare):
        return
    for place, operator in enumerate(node.ops):
        for other in _INSTEAD[type(operator)]:
            yield ast.Compare(node.left, [*node.ops[:place], other(), *node.ops[place + 1 :]], node.comparators)
