"""A wrong constant: a different number or text, or a bound that is too small for the largest inputs."""

import ast
from collections.abc import Iterator

_LARGE = 1000  # above this, a difference of one rarely matters, but a number that is much too small does


def mutate(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)) if value <= _LARGE:
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=int(value) | float(value)) if value:
            yield ast.Constant(value // _LARGE if value > _LARGE else value / 2)
        case ast.Constant(value=str(value)) if value:
            yield ast.Constant("")
