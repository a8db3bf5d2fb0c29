"""Generation of a limited number of mutants, spread over the kinds of mistakes and the positions in the program."""

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

_DEFAULT_SHOWN_CASES = 2  # assumed number of cases in the statement, if unknown
_MAX_CASE_CHARACTERS = 4_000  # of a case to hard-code; below Python's limit of integer digits

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Mutant:
    """A presumably wrong program. kind: name of a function in mistakes.py, or "hard_coded" """

    kind: str
    source: str


def generate_mutants(
    reference: str, suite: Suite, *, n_shown_cases: int, seed: int, max_count: int = MAX_MUTANTS
) -> list[Mutant]:
    """Return at most `max_count` distinct mutants of a Python program; none if it cannot be parsed.

    n_shown_cases  number of cases in the statement, the first ones of the suite; 0 if unknown

    Deterministic for the same reference, suite and seed.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(reference)
        original = ast.unparse(tree)
        kinds = {source: "hard_coded" for source in write_hard_coded_programs(suite, n_shown_cases)}
        for kind, position, node in _generate_mistakes(
            tree, _find_tested_names(suite), random.Random(f"{seed} {original}")
        ):
            if len(kinds) >= max_count:
                break
            source = position.unparse_with(node, tree)
            if source != original:
                kinds.setdefault(source, kind)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [Mutant(kind, source) for source, kind in kinds.items()]


def _find_tested_names(suite: Suite) -> tuple[str, ...]:
    if suite.assertions is None:
        return suite.called_names
    attributes = {name for case in suite.cases for name in _ATTRIBUTE.findall(case.input)}
    return (*suite.called_names, *sorted(attributes))


def _generate_mistakes(
    tree: ast.Module, tested_names: Collection[str], rng: random.Random
) -> Iterator[tuple[str, "NodePosition", ast.AST]]:
    """Yield the kind, position and replacement of each mistake, one of each kind in turn.

    Within a kind, every position gets one mistake before any gets a second.
    """
    positions = list(find_mutable_nodes(tree, tested_names))
    mistakes_by_kind: list[list[tuple[int, NodePosition, ast.AST]]] = []
    for kind in KINDS:
        mistakes = []
        for position in positions:
            nodes = list(kind(position.node))
            rng.shuffle(nodes)
            mistakes += [(turn, position, node) for turn, node in enumerate(nodes)]
        rng.shuffle(mistakes)
        mistakes_by_kind.append(sorted(mistakes, key=lambda mistake: mistake[0]))
    for mistakes_of_turn in zip_longest(*mistakes_by_kind):
        for kind, mistake in zip(KINDS, mistakes_of_turn, strict=True):
            if mistake is not None:
                yield kind.__name__, *mistake[1:]


@dataclass(frozen=True, slots=True)
class NodePosition:
    """The position of a node in the syntax tree.

    field  field of the parent with the node
    index  index in this field; None if the field is no list
    """

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None

    def unparse_with(self, other: ast.AST, tree: ast.Module) -> str:
        """Return the source code of the tree with another node at this position."""
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


def find_mutable_nodes(program: ast.Module, tested_names: Collection[str]) -> Iterator[NodePosition]:
    """Yield the positions in a program where a mistake could have an effect, in source order.

    tested_names: names of the program that tests use

    Skips imports, annotations, docstrings, unused definitions and settings of the interpreter.
    """
    return _iter_positions(program, _find_unused_definitions(program, tested_names))


def _iter_positions(node: ast.AST, unused: set[ast.AST]) -> Iterator[NodePosition]:
    for field, value in ast.iter_fields(node):
        if field in _IGNORED_FIELDS:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or child in unused or _is_inert(child, node):
                continue
            if not (isinstance(child, ast.If) and _is_main_guard(child.test)):
                yield NodePosition(child, node, field, index)
            yield from _iter_positions(child, unused)


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


def _find_unused_definitions(program: ast.Module, tested_names: Collection[str]) -> set[ast.AST]:
    """Return the functions and classes that neither tests nor executed code use. Solutions may contain libraries."""
    unused = {node for node in ast.walk(program) if isinstance(node, _Definition)}
    used_names = _find_names(program) | {*tested_names, "Solution"}
    while used := {node for node in unused if node.name in used_names or node.name.startswith("__")}:
        unused -= used
        for node in used:
            used_names |= _find_names(node)
    return set(unused)


def _find_names(node: ast.AST) -> set[str]:
    """Return the variables and attributes in a node, except those inside functions and classes."""
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
    """Yield a program that always gives the most frequent output, and one that also hard-codes the shown cases.

    n_shown_cases: number of cases in the statement, the first ones of the suite; 0 if unknown
    """
    cases = [case for case in suite.cases if len(case.input) + len(case.expected) <= _MAX_CASE_CHARACTERS]
    if suite.assertions is not None:
        # Without the statements, which have no expected value.
        cases = [case for case in cases if case.expected]
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
    table = {"".join(text.split()): output for text, output in table.items()}
    return f"import sys\nprint({table!r}.get(''.join(sys.stdin.read().split()), {usual!r}))\n"


def _write_function_program(table: dict[str, str], usual: str, entry_point: str) -> str:
    table = {json.dumps(json.loads(text)): output for text, output in table.items()}
    return (
        f"import json\ndef {entry_point}(*arguments):\n"
        f"    return json.loads({table!r}.get(json.dumps(arguments), {usual!r}))\n"
    )


def _write_assertion_program(calls: Sequence[str], table: dict[str, str], usual: str) -> str:
    """Return a program whose functions look up their return values in a table.

    calls  calls of all cases, as Python code; the program defines all of their functions
    table  values by call, as Python code
    usual  value of all other calls, as Python code
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
    for name, entries in sorted(rows.items(), key=lambda row: "." not in row[0]):
        indent, instance = ("    ", "self, ") if "." in name else ("", "")
        lines += [
            f"{indent}def {name.rpartition('.')[2]}({instance}*arguments, **named):",
            f"{indent}    return {{{', '.join(entries)}}}.get(repr((arguments, named)), {usual})",
        ]
    return "\n".join(lines) + "\n"
