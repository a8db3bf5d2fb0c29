"""An early end: a loop ends after its first round, or a function returns before all its work is done."""

import ast
from collections.abc import Iterator


def mutate(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.For(body=body) if not _leaves(body):
            yield ast.For(node.target, node.iter, [*body, ast.Break()], node.orelse, lineno=0)
        case ast.While(test=test, body=body) if not _leaves(body):
            yield ast.While(test, [*body, ast.Break()], node.orelse)
        case ast.FunctionDef(body=[*work, ast.Return() as end]):
            for place, statement in enumerate(work):
                rest = [*work[place + 1 :], end]
                match statement:
                    case ast.For(body=body) if not _leaves(body):  # the return statement is indented one level too far
                        loop = ast.For(statement.target, statement.iter, [*body, end], statement.orelse, lineno=0)
                        yield _with_body(node, [*work[:place], loop, *rest])
                    case ast.If(test=test, body=body, orelse=orelse) if not _leaves(body):
                        yield _with_body(node, [*work[:place], ast.If(test, [*body, end], orelse), *rest])


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Break | ast.Continue | ast.Raise)


def _with_body(node: ast.FunctionDef, body: list[ast.stmt]) -> ast.FunctionDef:
    return ast.FunctionDef(node.name, node.args, body, node.decorator_list, node.returns, lineno=0)
