"""Turn the body of a test into cases: each assertion, and each other statement that contains one, is a test.

From an assertion such as `assert f([1, 2], k=3) == 7`, also in a loop over literals, the expected value is taken out if
the call and the value are literals. The value is then compared outside of the submission's process, by Python's `==`.
Assertions that differ from that, if only in how they treat 1 and True, stay as they are.

The function `assertion(out, exp, atol)` of EvalPlus (MBPP+) compares with `==`, except for decimal numbers, which it
compares with a tolerance. So the expected value can be taken out unless it is such a number.
"""

import ast
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curate.reading.dialects.dependencies import BINDING, bound_names, required_statements, unparse, used_names
from curate.reading.dialects.literals import NotLiteral, evaluate, to_literal
from sandbox import Case

_EQUATIONS = {"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual"}

# For each function that contains assertions: does f(call, expected, 0) say just that the two are equal?
Helpers = Mapping[str, Callable[[Any], bool]]

MAX_ITERATIONS = 20_000  # turns of a loop
_RAISING = {"raises", "warns", "fail"}  # of pytest, beside everything whose name begins with "assert"
_FIXED = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))
_EVALPLUS = "assertion"  # EvalPlus's function; the digest is of it and of the function that it calls
_EVALPLUS_SHA256 = "b16f1887bdc9e6ccfbf73bdd9a532219e4b9958328e8a17c84344b7598f49e6e"


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
    if _defines_evalplus(functions):
        helpers[_EVALPLUS] = _evalplus_compares_exactly
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


def extract_case(
    node: ast.stmt, names: Collection[str], values: Mapping[str, Any], calls: Mapping[str, str], helpers: Helpers
) -> Case | None:
    """Return the case that says the same as a statement, or None if there is none.

    names    names that the submission defines
    values   values of names that were assigned before
    calls    calls of the submission, as text, whose results were assigned to names before
    helpers  functions that contain assertions
    """
    says_equal: Callable[[Any], bool] = always_compares_exactly
    match node:
        case ast.Expr(ast.Call(ast.Name(name), [left, right, ast.Constant(0)], [])) if name in helpers:
            sides, says_equal = (left, right), helpers[name]
        case _ if (equation := _equation(node)) is not None:
            sides = equation
        case _:
            return None
    for side, other in (sides, sides[::-1]):
        try:
            call = calls[side.id] if isinstance(side, ast.Name) and side.id in calls else call_text(side, names, values)
            expected = evaluate(other, values)
            return Case(call, to_literal(expected)) if says_equal(expected) else None
        except NotLiteral:
            continue
    return None


def always_compares_exactly(expected: Any) -> bool:
    """Say that an expected value is compared by `==`."""
    return True


def never_compares_exactly(expected: Any) -> bool:
    """Say that an expected value may be compared in another way than by `==`."""
    return False


def _equation(node: ast.stmt) -> tuple[ast.expr, ast.expr] | None:
    """Return the two sides that the statement says are equal, if that is all it says."""
    match node:
        case ast.Assert(ast.Compare(left, [ast.Eq()], [right])):
            return left, right
        case ast.Assert(ast.Compare(left, [ast.Is()], [ast.Constant(None) as right])):
            return left, right  # values are data here, and no data but None is equal to None
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("self"), name), [left, right, *_])) if name in _EQUATIONS:
            return left, right
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("self"), "assertIsNone"), [left, *_])):
            return left, ast.Constant(None)
    return None


def call_text(node: ast.expr, names: Collection[str], values: Mapping[str, Any]) -> str:
    """Return a call of the submission with literals as arguments, as the sandbox reads it.

    names   names that the submission defines
    values  values of names that were assigned before

    Raises NotLiteral for anything else.
    """
    if not isinstance(node, ast.Call):
        raise NotLiteral("no call")
    arguments = [to_literal(argument) for argument in evaluate(ast.List(node.args), values)]
    for keyword in node.keywords:
        if keyword.arg is None:
            raise NotLiteral("unpacked keywords")
        arguments.append(f"{keyword.arg}={to_literal(evaluate(keyword.value, values))}")
    return f"{_called_function(node.func, names)}({', '.join(arguments)})"


def _called_function(node: ast.expr, names: Collection[str]) -> str:
    match node:
        case ast.Name(name) if name in names:
            return name
        case ast.Attribute(ast.Call(ast.Name(name), [], []), method) if name in names:
            return f"{name}().{method}"
    raise NotLiteral("not a function of the submission")


def evaluate_iterations(node: ast.For, values: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the values that each turn of a loop gives to its variables; None if they are not known."""
    if node.orelse or any(isinstance(inner, ast.Break | ast.Continue) for inner in ast.walk(node)):
        return None
    try:
        items = _iterated(node.iter, values)
        return [_bound(node.target, item) for item in items] if len(items) <= MAX_ITERATIONS else None
    except (NotLiteral, ValueError, TypeError):
        return None


def restrict_loop(node: ast.For, items: Sequence[Mapping[str, Any]]) -> ast.For:
    """Return the loop with only some of its turns. Raises NotLiteral.

    items: the values that these turns give to the loop's variables
    """
    names = list(items[0])
    rows = ", ".join(f"({', '.join(to_literal(item[name]) for name in names)},)" for item in items)
    (loop,) = ast.parse(f"for ({', '.join(names)},) in [{rows}]: pass").body
    assert isinstance(loop, ast.For)
    loop.body = node.body
    return loop


def _iterated(node: ast.expr, values: Mapping[str, Any]) -> list[Any]:
    match node:
        case ast.Call(ast.Name("enumerate"), [inner], []):
            return list(enumerate(_iterated(inner, values)))
        case ast.Call(ast.Name("zip"), columns, []):
            return list(zip(*(_iterated(column, values) for column in columns), strict=False))
        case ast.Call(ast.Attribute(inner, "items"), [], []):
            return list(evaluate(inner, values).items())
    value = evaluate(node, values)
    if not isinstance(value, list | tuple | dict):
        raise NotLiteral("not a list")
    return list(value)


def _bound(target: ast.expr, item: Any) -> dict[str, Any]:
    match target:
        case ast.Name(name):
            return {name: item}
        case ast.Tuple(targets) | ast.List(targets):
            pairs = zip(targets, item, strict=True)
            return {name: value for inner, part in pairs for name, value in _bound(inner, part).items()}
    raise NotLiteral("a target that is not a name")


def _defines_evalplus(nodes: Sequence[ast.stmt]) -> bool:
    """Say whether the statements define EvalPlus's function, word for word."""
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name in (_EVALPLUS, "is_floats")]
    return hashlib.sha256(unparse(functions).encode()).hexdigest() == _EVALPLUS_SHA256


def _evalplus_compares_exactly(expected: Any) -> bool:
    """Say whether the function compares results with this value by `==` alone."""
    items = expected if isinstance(expected, list | tuple) else [expected]
    return not all(isinstance(item, float) for item in items)
