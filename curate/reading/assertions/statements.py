"""Turn the body of a test into cases: each assertion, and each other statement that contains one, is a test."""

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curate.reading.assertions import evalplus
from curate.reading.assertions.case_extraction import Helpers, call_text, extract_case, never_compares_exactly
from curate.reading.assertions.dependencies import BINDING, bound_names, required_statements, unparse, used_names
from curate.reading.assertions.literals import NotLiteral, evaluate
from curate.reading.assertions.loops import evaluate_iterations, restrict_loop
from sandbox import Case

_RAISING = {"raises", "warns", "fail"}  # of pytest, beside everything whose name begins with "assert"
_FIXED = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))


def extract_cases(
    body: Sequence[ast.stmt], names: Collection[str], values: Mapping[str, Any], helpers: Helpers
) -> Iterator[Case]:
    """Yield the tests in a body of statements.

    names    what the submission defines
    values   values of names that are assigned elsewhere
    helpers  functions, defined elsewhere, that contain assertions; see asserting_functions

    A test whose expected value cannot be taken out keeps the earlier statements that it needs.
    """
    known, calls = dict(values), dict[str, str]()
    checking = dict(helpers)
    earlier: list[ast.stmt] = []
    tests: list[bool] = []
    reaching = set(names)  # what the submission defines, and what comes from it
    independent = True  # no statement before has called the submission for an effect that a later test may see
    for node in body:
        if is_no_op(node):
            continue
        is_test = contains_assertion(node, checking)
        if is_test:
            examples: list[Case] = []
            others = [node]
            if independent:
                is_apart = not used_names(node) & (reaching - set(names))
                examples, others = _taken_out(node, names, known, calls, checking, is_apart=is_apart)
            yield from examples
            for test in others:
                yield Case(unparse([*required_statements(test, earlier, tests), test]), "")
        elif isinstance(node, ast.FunctionDef) and any(contains_assertion(inner, checking) for inner in node.body):
            checking[node.name] = never_compares_exactly
        assigned = None if is_test else _assignment(node, names, known)
        _forget(node, known, calls)
        if not is_test and used_names(node) & reaching:
            if isinstance(node, BINDING):
                reaching |= bound_names([node])
            else:
                independent = False
        if assigned is not None:
            (calls if assigned.is_call else known)[assigned.name] = assigned.value
        earlier.append(node)
        tests.append(is_test)


def _taken_out(
    node: ast.stmt,
    names: Collection[str],
    known: Mapping[str, Any],
    calls: Mapping[str, str],
    helpers: Helpers,
    *,
    is_apart: bool,
) -> tuple[list[Case], list[ast.stmt]]:
    """Return the examples in a test, and the tests that are left of it.

    is_apart  whether the test uses nothing that earlier statements have got from the submission. If so, each turn of a
              loop that only asserts is a test
    """
    if (case := extract_case(node, names, known, calls, helpers)) is not None:
        return [case], []
    if not isinstance(node, ast.For) or (items := evaluate_iterations(node, known)) is None:
        return [], [node]
    examples: list[Case] = []
    other_turns = []
    for item in items:
        at_turn = {**known, **item}
        in_turn = [extract_case(inner, names, at_turn, {}, helpers) for inner in node.body if not is_no_op(inner)]
        if None in in_turn:
            other_turns.append(item)
        else:
            examples += filter(None, in_turn)
    if is_apart and all(isinstance(inner, ast.Assert | ast.Expr) for inner in node.body):
        return examples, [restrict_loop(node, [item]) for item in other_turns]
    if not examples:
        return [], [node]
    return examples, [restrict_loop(node, other_turns)] if other_turns else []


def is_no_op(node: ast.stmt) -> bool:
    """Say whether this is a statement without effect: a docstring, a bare name, `pass` or `assert True`."""
    match node:
        case ast.Pass() | ast.Expr(ast.Constant() | ast.Name()) | ast.Assert(ast.Constant(True)):
            return True
    return False


def contains_assertion(node: ast.AST, helpers: Collection[str]) -> bool:
    """Say whether a statement asserts something when it is executed. helpers: functions that contain assertions"""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
            return False
        case ast.Assert() | ast.Raise():
            return True
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name)):
            if name in helpers or name in _RAISING or name.startswith("assert"):
                return True
    return any(contains_assertion(inner, helpers) for inner in ast.iter_child_nodes(node))


def asserting_functions(nodes: Sequence[ast.stmt]) -> dict[str, Callable[[Any], bool]]:
    """Return the functions among the nodes that contain assertions, directly or through each other, by their names.

    The value says whether such a function, given a result and an expected value, only says that they are equal.
    """
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    helpers: dict[str, Callable[[Any], bool]] = {}
    while more := {
        function.name: never_compares_exactly
        for function in functions
        if function.name not in helpers and any(contains_assertion(inner, helpers) for inner in function.body)
    }:
        helpers |= more
    if evalplus.is_defined(functions):
        helpers[evalplus.NAME] = evalplus.compares_exactly
    return helpers


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A name and its value: a literal, or the text of a call of the submission."""

    name: str
    value: Any
    is_call: bool


def _assignment(node: ast.stmt, names: Collection[str], known: Mapping[str, Any]) -> _Assignment | None:
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
        return None
    name = node.targets[0].id
    try:
        return _Assignment(name, call_text(node.value, names, known), is_call=True)
    except NotLiteral:
        pass
    try:
        # A second name for something that can change in place is not followed.
        return _Assignment(name, evaluate(node.value, _fixed(known)), is_call=False)
    except NotLiteral:
        return None


def _fixed(known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if isinstance(value, _FIXED)}


def _forget(node: ast.stmt, known: dict[str, Any], calls: dict[str, str]) -> None:
    """Forget what a statement assigns, and what it may change in place."""
    assigned, names = bound_names([node]), used_names(node)
    fixed = _fixed(known)
    changes = any(isinstance(inner, ast.Call) for inner in ast.walk(node)) or not isinstance(node, ast.Assert)
    for name in [name for name in known if name in assigned or (name in names and changes and name not in fixed)]:
        del known[name]
    for name in [name for name in calls if name in assigned or (name in names and changes)]:
        del calls[name]
