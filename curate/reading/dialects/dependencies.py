"""Analysis of test code: the names that it binds and uses, and the earlier statements that a test needs."""

import ast
import builtins
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from curate.reading.values import ParseError, allow_long_integers, shorten

# Statements that only bind names; any other is executed for its effects.
BINDING = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
_BUILTINS = frozenset(vars(builtins)) | {"__file__"}


def parse(code: object, name: str) -> list[ast.stmt]:
    """Parse Python code into statements. name: of the code, for error messages. Raises ParseError if it is invalid."""
    if not isinstance(code, str):
        raise ParseError(f"{name} is {type(code).__name__}, not text")
    try:
        with allow_long_integers(), warnings.catch_warnings(action="ignore"):
            return ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParseError(f"{name} cannot be read: {shorten(error)}") from None


def unparse(nodes: Iterable[ast.AST]) -> str:
    """Return the source code of statements. Raises ParseError."""
    try:
        with allow_long_integers():
            return "\n".join(ast.unparse(node) for node in nodes)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"a test cannot be written: {shorten(error)}") from None


def find_used_names(node: ast.AST) -> set[str]:
    """Return the names of all variables that a node reads or writes."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def find_bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return all names that the nodes assign, import or define, in any scope."""
    return {name for node in nodes for inner in ast.walk(node) for name in _get_bound_names(inner)}


def _get_bound_names(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(name, ast.Store() | ast.Del()) | ast.arg(name):
            return {name}
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            return {name}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
        case ast.Import(aliases) | ast.ImportFrom(names=aliases):
            return {alias.asname or alias.name.partition(".")[0] for alias in aliases}
    return set()


def find_undefined_names(nodes: Sequence[ast.AST]) -> list[str]:
    """Return the sorted names that a module uses but neither defines nor finds among the builtins."""
    return sorted(_find_free_names(nodes) - _BUILTINS)


def _find_free_names(nodes: Iterable[ast.AST], parameters: Iterable[str] = ()) -> set[str]:
    """Return the variables that a scope uses but does not bind."""
    scope_nodes: list[ast.AST] = []  # without the nodes of nested functions and classes
    free: set[str] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        scope_nodes.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            body = node.body if isinstance(node.body, list) else [node.body]
            free |= _find_free_names(body, find_bound_names([node.args]))
            left += [*node.args.defaults, *(value for value in node.args.kw_defaults if value)]
            # Without annotations, whose names may be undefined.
            left += getattr(node, "decorator_list", [])
        elif isinstance(node, ast.ClassDef):
            free |= _find_free_names(node.body)
            left += [*node.bases, *node.decorator_list]
        else:
            left += ast.iter_child_nodes(node)
    own = {name for node in scope_nodes for name in _get_bound_names(node)} | set(parameters)
    return (free | {node.id for node in scope_nodes if isinstance(node, ast.Name)}) - own


@lru_cache(8)
def parse_definitions(solution: str) -> tuple[ast.FunctionDef | ast.ClassDef, ...]:
    """Return the functions and classes at the top level of a solution; empty if it cannot be parsed."""
    try:
        nodes = parse(solution, "the solution")
    except ParseError:
        return ()
    return tuple(node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef))


def find_defined_names(solution: str) -> set[str]:
    """Return the names of the top-level functions and classes of a solution; empty if it cannot be parsed."""
    return {node.name for node in parse_definitions(solution)}


def find_defined_classes(solution: str) -> set[str]:
    """Return the names of the top-level classes of a solution; empty if it cannot be parsed."""
    return {node.name for node in parse_definitions(solution) if isinstance(node, ast.ClassDef)}


@dataclass(frozen=True, slots=True)
class EarlierStatement:
    """A statement before a test.

    is_test      whether it is a test itself
    bound_names  names that it binds
    names        names that it binds or uses
    """

    node: ast.stmt
    is_test: bool
    bound_names: frozenset[str]
    names: frozenset[str]

    @property
    def has_effects(self) -> bool:
        """True if the statement only has side effects: it neither binds a name nor is a test."""
        return not self.is_test and not isinstance(self.node, BINDING)


def select_required_statements(node: ast.stmt, earlier: Sequence[EarlierStatement]) -> list[ast.stmt]:
    """Return the earlier statements that must run before `node`.

    A binding or a test is required if it binds a required variable, or uses it and so may change its value. Statements
    with side effects are always required.
    """
    local = frozenset[str]().union(*(statement.bound_names for statement in earlier))
    names = find_used_names(node) & local
    required: list[ast.stmt] = []
    for statement in reversed(earlier):
        if statement.has_effects or names & statement.names:
            required.append(statement.node)
            names |= statement.names & local
    return required[::-1]
