"""Make a limited number of wrong programs from a right one, spread over the kinds of mistakes and the positions."""

import ast
import json
import random
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from curate.strength.mistakes import KINDS
from sandbox import Suite

MAX_MUTANTS = 24  # each costs about as much as judging the reference; more only add precision

_ATTRIBUTE = re.compile(r"\.([A-Za-z_]\w*)")
_SETTINGS = {"setrecursionlimit", "stack_size", "set_int_max_str_digits", "setswitchinterval", "reconfigure"}
_IGNORED_FIELDS = {"annotation", "returns", "decorator_list", "format_spec"}

_DEFAULT_SHOWN_CASES = 2  # number of cases in the statement, if unknown
_MAX_CASE_CHARACTERS = 4_000  # of a case to memorize; below Python's limit of integer digits

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Mutant:
    """A presumably wrong program. kind: the mistake, a function of mistakes.py, or `hard_coded`"""

    kind: str
    source: str


def generate_mutants(
    reference: str, suite: Suite, *, n_shown_cases: int, seed: int, max_count: int = MAX_MUTANTS
) -> list[Mutant]:
    """Return at most `max_count` distinct mutants of a Python program; none if it cannot be parsed.

    n_shown_cases  number of leading cases of the suite in the statement; 0: unknown

    Deterministic for the same reference, suite and seed.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(reference)
        original = ast.unparse(tree)
        kinds = {source: "hard_coded" for source in write_hard_coded_programs(suite, n_shown_cases)}
        for kind, position, node in _generate_mistakes(
            tree, _find_used_names(suite), random.Random(f"{seed} {original}")
        ):
            if len(kinds) >= max_count:
                break
            source = position.unparse_with(node, tree)
            if source != original:
                kinds.setdefault(source, kind)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [Mutant(kind, source) for source, kind in kinds.items()]


def _find_used_names(suite: Suite) -> tuple[str, ...]:
    if suite.assertions is None:
        return suite.called_names
    attributes = {name for case in suite.cases for name in _ATTRIBUTE.findall(case.input)}
    return (*suite.called_names, *sorted(attributes))


def _generate_mistakes(
    tree: ast.Module, called: Collection[str], rng: random.Random
) -> Iterator[tuple[str, "NodePosition", ast.AST]]:
    """Yield the kind, position and replacement of each mistake, one of each kind in turn.

    Within a kind, every position gets one mistake before any gets a second.
    """
    everywhere = list(find_mutable_nodes(tree, called))
    turns: list[list[tuple[int, NodePosition, ast.AST]]] = []
    for kind in KINDS:
        mistakes = []
        for position in everywhere:
            nodes = list(kind(position.node))
            rng.shuffle(nodes)
            mistakes += [(turn, position, node) for turn, node in enumerate(nodes)]
        rng.shuffle(mistakes)
        turns.append(sorted(mistakes, key=lambda mistake: mistake[0]))
    for mistakes_of_turn in zip_longest(*turns):
        for kind, mistake in zip(KINDS, mistakes_of_turn, strict=True):
            if mistake is not None:
                yield kind.__name__, *mistake[1:]


@dataclass(frozen=True, slots=True)
class NodePosition:
    """The position of a node in the syntax tree."""

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None

    def unparse_with(self, other: ast.AST, tree: ast.Module) -> str:
        """Return the source text of the tree with another node at this position."""
        self._set_node(other)
        try:
            return ast.unparse(tree)
        finally:
            self._set_node(self.node)

    def _set_node(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def find_mutable_nodes(program: ast.Module, called: Collection[str]) -> Iterator[NodePosition]:
    """Yield the positions in a program where a mistake could have an effect, in source order.

    called: the names that tests use

    Skips imports, annotations, docstrings, unused definitions and settings of the interpreter.
    """
    return _find_positions(program, _find_unused(program, called))


def _find_positions(node: ast.AST, unused: set[ast.AST]) -> Iterator[NodePosition]:
    for field, value in ast.iter_fields(node):
        if field in _IGNORED_FIELDS:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or child in unused or _is_inert(child, node):
                continue
            if not (isinstance(child, ast.If) and _is_main_guard(child.test)):
                yield NodePosition(child, node, field, index)
            yield from _find_positions(child, unused)


def _is_inert(node: ast.AST, parent: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.arguments() | ast.pattern() | ast.expr_context():
            return True
        case ast.Expr(value=value):
            return isinstance(value, ast.Constant) or _is_inert(value, node)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _SETTINGS
        case ast.Constant():
            return isinstance(parent, ast.JoinedStr)
    return _is_main_guard(node)


def _is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "__name__"


def _find_unused(program: ast.Module, called: Collection[str]) -> set[ast.AST]:
    """Return the definitions that executed code never names. Solutions may contain whole libraries."""
    left = {node for node in ast.walk(program) if isinstance(node, _Definition)}
    used_names = _find_names(program) | {*called, "Solution"}
    while used := {node for node in left if node.name in used_names or node.name.startswith("__")}:
        left -= used
        for node in used:
            used_names |= _find_names(node)
    return set(left)


def _find_names(node: ast.AST) -> set[str]:
    """Return the names in a node, except those inside definitions."""
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Definition):
            continue
        if isinstance(child, ast.Name):
            names.add(child.id)
        elif isinstance(child, ast.Attribute):
            names.add(child.attr)
        names |= _find_names(child)
    return names


def write_hard_coded_programs(suite: Suite, n_shown_cases: int) -> Iterator[str]:
    """Yield a program that prints the most frequent output, and one that also memorizes the shown cases.

    n_shown_cases: number of leading cases of the suite in the statement; 0: unknown
    """
    cases = [case for case in suite.cases if len(case.input) + len(case.expected) <= _MAX_CASE_CHARACTERS]
    if suite.assertions is not None:
        cases = [case for case in cases if case.expected]  # other cases have no expected value
    if len(cases) < 2:
        return
    usual = Counter(case.expected for case in cases).most_common(1)[0][0]
    for count in (0, min(n_shown_cases or _DEFAULT_SHOWN_CASES, len(cases) - 1)):
        table = {case.input: case.expected for case in cases[:count]}
        if suite.assertions is not None:
            yield _write_assertion_program([case.input for case in cases], table, usual)
        elif suite.entry_point:
            yield _write_function_program(table, usual, suite.entry_point)
        else:
            yield _write_stdin_program(table, usual)


def _write_stdin_program(table: dict[str, str], usual: str) -> str:
    table = {"".join(text.split()): answer for text, answer in table.items()}
    return f"import sys\nprint({table!r}.get(''.join(sys.stdin.read().split()), {usual!r}))\n"


def _write_function_program(table: dict[str, str], usual: str, entry_point: str) -> str:
    table = {json.dumps(json.loads(text)): answer for text, answer in table.items()}
    return (
        f"import json\ndef {entry_point}(*arguments):\n"
        f"    return json.loads({table!r}.get(json.dumps(arguments), {usual!r}))\n"
    )


def _write_assertion_program(calls: Sequence[str], table: dict[str, str], usual: str) -> str:
    """Return a program whose functions look up their return values in a table.

    calls  calls of all cases, as Python; the program defines each called function
    table  values by call, as Python
    usual  value of all other calls
    """
    rows: dict[str, list[str]] = {}
    for text in calls:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        function = rows.setdefault(ast.unparse(call.func), [])
        if text in table:
            arguments = "".join(f"{ast.unparse(argument)}, " for argument in call.args)
            keywords = ", ".join(f"{keyword.arg!r}: {ast.unparse(keyword.value)}" for keyword in call.keywords)
            function.append(f"repr((({arguments}), {{{keywords}}})): {table[text]}")
    lines = ["class Solution:"] if any("." in name for name in rows) else []
    for name, known in sorted(rows.items(), key=lambda row: "." not in row[0]):
        indent, instance = ("    ", "self, ") if "." in name else ("", "")
        lines += [
            f"{indent}def {name.rpartition('.')[2]}({instance}*arguments, **named):",
            f"{indent}    return {{{', '.join(known)}}}.get(repr((arguments, named)), {usual})",
        ]
    return "\n".join(lines) + "\n"
