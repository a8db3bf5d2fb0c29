"""The names that each scope of a program binds."""

import ast
from collections.abc import Iterable, Iterator

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ClassDef)


def find_bound_names(node: ast.AST) -> set[str]:
    """Return the names that a node binds, without those of imports and of its child nodes."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Name(ctx=ast.Store() | ast.Del()):
            return {node.id}
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return {node.name} if node.name else set()
        case ast.MatchMapping():
            return {node.rest} if node.rest else set()
    return set()


def find_scope_names(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that these statements bind in their scope, without those of imports."""
    return {name for node in walk_scope(body) for name in find_bound_names(node)}


def walk_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes in the scope of these statements.

    Skips the bodies of functions, classes and comprehensions, except names that comprehensions assign by `:=`.
    """
    pending = [(node, False) for node in body]
    while pending:
        node, is_inner = pending.pop()
        if not is_inner:
            yield node
        elif isinstance(node, ast.NamedExpr):
            yield node.target
        if not isinstance(node, _SCOPES):
            is_inner = is_inner or isinstance(node, COMPREHENSIONS)
            pending += [(child, is_inner) for child in ast.iter_child_nodes(node)]


def find_global_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that these nodes declare global."""
    return {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
