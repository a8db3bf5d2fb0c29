"""Find the places in a program where a mistake could have an effect.

Imports, annotations, docstrings, unused definitions and settings of the interpreter are left unchanged.
"""

import ast
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_SETTINGS = {"setrecursionlimit", "stack_size", "set_int_max_str_digits", "setswitchinterval", "reconfigure"}
_FIELDS_ASIDE = {"annotation", "returns", "decorator_list", "format_spec"}

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class NodePosition:
    """The place of a node in the syntax tree."""

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None

    @contextmanager
    def replace_with(self, other: ast.AST) -> Iterator[None]:
        """Put another node in this place for the duration of the block."""
        self._hang(other)
        try:
            yield
        finally:
            self._hang(self.node)

    def _hang(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutable_nodes(program: ast.Module, called: Collection[str]) -> Iterator[NodePosition]:
    """Yield the places in the order of the source text. called: the names that tests use"""
    return _below(program, _unused(program, called))


def _below(node: ast.AST, unused: set[ast.AST]) -> Iterator[NodePosition]:
    for field, value in ast.iter_fields(node):
        if field in _FIELDS_ASIDE:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or child in unused or _inert(child, node):
                continue
            if not (isinstance(child, ast.If) and _asks_for_main(child.test)):
                yield NodePosition(child, node, field, index)
            yield from _below(child, unused)


def _inert(node: ast.AST, parent: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.arguments() | ast.pattern() | ast.expr_context():
            return True
        case ast.Expr(value=value):
            return isinstance(value, ast.Constant) or _inert(value, node)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _SETTINGS
        case ast.Constant():
            return isinstance(parent, ast.JoinedStr)
    return _asks_for_main(node)


def _asks_for_main(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "__name__"


def _unused(program: ast.Module, called: Collection[str]) -> set[ast.AST]:
    """Return the definitions to which no executed code refers by name, since solutions may contain whole libraries."""
    left = {node for node in ast.walk(program) if isinstance(node, _Definition)}
    reached = _names(program) | {*called, "Solution"}
    while used := {node for node in left if node.name in reached or node.name.startswith("__")}:
        left -= used
        for node in used:
            reached |= _names(node)
    return set(left)


def _names(node: ast.AST) -> set[str]:
    """Return the names in a node, except those inside definitions."""
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Definition):
            continue
        if isinstance(child, ast.Name):
            names.add(child.id)
        elif isinstance(child, ast.Attribute):
            names.add(child.attr)
        names |= _names(child)
    return names
