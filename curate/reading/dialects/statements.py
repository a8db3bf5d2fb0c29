"""Conversion of statements, test functions and test classes into cases.

In a body of statements, each statement that is or contains an assertion is a test. From an assertion of literals such
as `assert f([1, 2], k=3) == 7`, also in a loop over literals, this module extracts the expected value. The sandbox then
compares it outside of the submission's process, by Python's `==`. All other assertions stay unchanged.

The function `assertion(out, exp, atol)` of EvalPlus (MBPP+) compares floats with a tolerance, and other values with
`==`. So its expected value is extracted unless it is a float.

Test functions and classes run as in pytest and unittest. A test that only asserts the return values of calls becomes a
case for each call. Any other function or method is one case. Skipped tests are omitted.
"""

import ast
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from curate.reading.dialects.dependencies import (
    BINDING,
    EarlierStatement,
    find_bound_names,
    find_used_names,
    select_required_statements,
    unparse,
)
from curate.reading.dialects.literals import NotLiteral, evaluate, to_literal
from curate.reading.values import ParseError, shorten
from sandbox import Case

MAX_ITERATIONS = 20_000  # iterations of a loop
_EQUATIONS = {"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual"}
_ASSERTION_NAMES = {"raises", "warns", "fail"}  # pytest's functions that assert; others begin with "assert"
_FIXED = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))
_EVALPLUS = "assertion"
# Digest of the functions `assertion` and `is_floats`.
_EVALPLUS_SHA256 = "b16f1887bdc9e6ccfbf73bdd9a532219e4b9958328e8a17c84344b7598f49e6e"
_SKIPPED = {"skip", "skipif", "xfail", "skipIf", "skipUnless", "expectedFailure"}
_FIXTURES = {"setUp", "tearDown", "setUpClass", "tearDownClass", "setup_method", "teardown_method", "setup_class"}


@dataclass(slots=True)
class _Scope:
    """The names and values that are known before a statement.

    names    names that the submission defines
    helpers  names of functions that contain assertions; True for EvalPlus's
    values   values of names that are assigned literals
    calls    calls of the submission, as text, by the name that is assigned their result
    """

    names: Collection[str]
    helpers: dict[str, bool]
    values: dict[str, Any]
    calls: dict[str, str] = field(default_factory=dict)

    def format_call(self, node: ast.expr) -> str:
        """Format a call of the submission with literal arguments. Raises NotLiteral for other nodes."""
        match node:
            case ast.Call(ast.Name(function)) if function in self.names:
                pass
            case ast.Call(ast.Attribute(ast.Call(ast.Name(name), [], []), method)) if name in self.names:
                function = f"{name}().{method}"
            case _:
                raise NotLiteral("not a call of the submission")
        assert isinstance(node, ast.Call)
        arguments = [to_literal(argument) for argument in evaluate(ast.List(node.args), self.values)]
        for keyword in node.keywords:
            if keyword.arg is None:
                raise NotLiteral("unpacked keywords")
            arguments.append(f"{keyword.arg}={to_literal(evaluate(keyword.value, self.values))}")
        return f"{function}({', '.join(arguments)})"

    def find_case(self, node: ast.stmt) -> Case | None:
        """Return the case that is equivalent to a statement; None if there is none."""
        sides: tuple[ast.expr, ast.expr] | None
        match node:
            case ast.Expr(ast.Call(ast.Name(name), [left, right, ast.Constant(0)], [])) if self.helpers.get(name):
                sides, has_tolerance = (left, right), True
            case _:
                sides, has_tolerance = _match_equation(node), False
        for call, expected in (sides, sides[::-1]) if sides else ():
            with suppress(NotLiteral):
                assigned = self.calls.get(call.id) if isinstance(call, ast.Name) else None
                text = self.format_call(call) if assigned is None else assigned
                value = evaluate(expected, self.values)
                return None if has_tolerance and _consists_of_floats(value) else Case(text, to_literal(value))
        return None

    def extract_examples(self, node: ast.stmt, *, is_independent: bool) -> tuple[list[Case], list[ast.stmt]]:
        """Return the cases extracted from a test, and the remaining tests.

        is_independent  whether the test uses no earlier results of the submission; if so, each iteration of a loop
                        that only asserts is a separate test
        """
        if (case := self.find_case(node)) is not None:
            return [case], []
        if not isinstance(node, ast.For) or (items := _evaluate_iterations(node, self.values)) is None:
            return [], [node]
        examples: list[Case] = []
        other_iterations = []
        for item in items:
            loop_scope = replace(self, values={**self.values, **item}, calls={})
            iteration_cases = [loop_scope.find_case(inner) for inner in node.body if not is_no_op(inner)]
            if None in iteration_cases:
                other_iterations.append(item)
            else:
                examples += filter(None, iteration_cases)
        if is_independent and all(isinstance(inner, ast.Assert | ast.Expr) for inner in node.body):
            return examples, [_select_iterations(node, [item]) for item in other_iterations]
        if not examples:
            return [], [node]
        return examples, [_select_iterations(node, other_iterations)] if other_iterations else []

    def update(self, node: ast.stmt, used: Collection[str], bound: Collection[str], *, is_test: bool) -> None:
        """Record the values that a statement assigns, and remove those that it may change in place.

        used, bound  names that the statement uses and binds
        """
        fixed = {name: value for name, value in self.values.items() if isinstance(value, _FIXED)}
        values, calls = dict[str, Any](), dict[str, str]()
        match node:
            case ast.Assign([ast.Name(name)], value) if not is_test:
                try:
                    calls[name] = self.format_call(value)
                except NotLiteral:
                    with suppress(NotLiteral):
                        # Only immutable values, since the name may become an alias of a mutable object.
                        values[name] = evaluate(value, fixed)
        if isinstance(node, ast.Assert) and not any(isinstance(inner, ast.Call) for inner in ast.walk(node)):
            used = ()
        self.values = {
            name: value
            for name, value in self.values.items()
            if name not in bound and (name not in used or name in fixed)
        } | values
        self.calls = {name: call for name, call in self.calls.items() if name not in bound and name not in used} | calls


def extract_cases(
    body: Sequence[ast.stmt], names: Collection[str], values: Mapping[str, Any], helpers: Mapping[str, bool]
) -> Iterator[Case]:
    """Yield the tests in a body of statements.

    names    names that the submission defines
    values   values of names that other code assigns
    helpers  functions with assertions in other code; see find_asserting_functions

    A test without an extracted value includes the earlier statements that it requires.
    """
    scope = _Scope(names, dict(helpers), dict(values))
    earlier: list[EarlierStatement] = []
    derived_names = set(names)  # names of the submission, and of values computed from its results
    independent = True  # False after a statement by which the submission may affect later tests
    for node in body:
        if is_no_op(node):
            continue
        used, bound = find_used_names(node), find_bound_names([node])
        if is_test := _has_assertion(node, scope.helpers):
            examples, others = list[Case](), [node]
            if independent:
                examples, others = scope.extract_examples(node, is_independent=not used & (derived_names - set(names)))
            yield from examples
            for test in others:
                yield Case(unparse([*select_required_statements(test, earlier), test]), "")
        elif isinstance(node, ast.FunctionDef) and _has_assertion_in_body(node, scope.helpers):
            scope.helpers[node.name] = False
        scope.update(node, used, bound, is_test=is_test)
        if not is_test and used & derived_names:
            if isinstance(node, BINDING):
                derived_names |= bound
            else:
                independent = False
        earlier.append(EarlierStatement(node, is_test, frozenset(bound), frozenset(used | bound)))


def find_asserting_functions(nodes: Sequence[ast.stmt]) -> dict[str, bool]:
    """Return the names of functions that contain assertions, or call such functions.

    The value is True for an exact copy of EvalPlus's function.
    """
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    helpers: dict[str, bool] = {}
    while new := [
        node.name for node in functions if node.name not in helpers and _has_assertion_in_body(node, helpers)
    ]:
        helpers |= dict.fromkeys(new, False)
    evalplus = unparse(node for node in functions if node.name in (_EVALPLUS, "is_floats"))
    if hashlib.sha256(evalplus.encode()).hexdigest() == _EVALPLUS_SHA256:
        helpers[_EVALPLUS] = True
    return helpers


def is_no_op(node: ast.stmt) -> bool:
    """Return whether a statement has no effect: a docstring, a bare name, `pass` or `assert True`."""
    match node:
        case ast.Pass() | ast.Expr(ast.Constant() | ast.Name()) | ast.Assert(ast.Constant(True)):
            return True
    return False


def _has_assertion(node: ast.AST, helpers: Collection[str]) -> bool:
    """Return whether executing a node asserts something. helpers: names of functions that contain assertions"""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
            return False
        case ast.Assert() | ast.Raise():
            return True
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name)):
            if name in helpers or name in _ASSERTION_NAMES or name.startswith("assert"):
                return True
    return any(_has_assertion(inner, helpers) for inner in ast.iter_child_nodes(node))


def _has_assertion_in_body(function: ast.FunctionDef, helpers: Collection[str]) -> bool:
    return any(_has_assertion(node, helpers) for node in function.body)


def _consists_of_floats(expected: Any) -> bool:
    """Return whether EvalPlus's function compares this expected value with a tolerance."""
    return all(isinstance(item, float) for item in (expected if isinstance(expected, list | tuple) else [expected]))


def _match_equation(node: ast.stmt) -> tuple[ast.expr, ast.expr] | None:
    """Return the two sides of a statement that only asserts their equality; None for any other statement."""
    match node:
        case ast.Assert(ast.Compare(left, [ast.Eq()], [right])):
            return left, right
        case ast.Assert(ast.Compare(left, [ast.Is()], [ast.Constant(None) as right])):
            # For plain data, `is None` is equivalent to `== None`.
            return left, right
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("self"), name), [left, right, *_])) if name in _EQUATIONS:
            return left, right
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("self"), "assertIsNone"), [left, *_])):
            return left, ast.Constant(None)
    return None


def _evaluate_iterations(node: ast.For, values: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the values of a loop's variables in each iteration; None if unknown."""
    if node.orelse or any(isinstance(inner, ast.Break | ast.Continue) for inner in ast.walk(node)):
        return None
    try:
        items = _evaluate_iterable(node.iter, values)
        return [_bind_target(node.target, item) for item in items] if len(items) <= MAX_ITERATIONS else None
    except (NotLiteral, ValueError, TypeError):
        return None


def _evaluate_iterable(node: ast.expr, values: Mapping[str, Any]) -> list[Any]:
    match node:
        case ast.Call(ast.Name("enumerate"), [inner], []):
            return list(enumerate(_evaluate_iterable(inner, values)))
        case ast.Call(ast.Name("zip"), columns, []):
            return list(zip(*(_evaluate_iterable(column, values) for column in columns), strict=False))
        case ast.Call(ast.Attribute(inner, "items"), [], []):
            return list(evaluate(inner, values).items())
    value = evaluate(node, values)
    if not isinstance(value, list | tuple | dict):
        raise NotLiteral("not a list")
    return list(value)


def _bind_target(target: ast.expr, item: Any) -> dict[str, Any]:
    match target:
        case ast.Name(name):
            return {name: item}
        case ast.Tuple(targets) | ast.List(targets):
            pairs = zip(targets, item, strict=True)
            return {name: value for inner, part in pairs for name, value in _bind_target(inner, part).items()}
    raise NotLiteral("a target that is not a name")


def _select_iterations(node: ast.For, items: Sequence[Mapping[str, Any]]) -> ast.For:
    """Return a loop with only some iterations. items: values of the loop variables in these. Raises NotLiteral."""
    names = list(items[0])
    rows = ", ".join(f"({', '.join(to_literal(item[name]) for name in names)},)" for item in items)
    (loop,) = ast.parse(f"for ({', '.join(names)},) in [{rows}]: pass").body
    assert isinstance(loop, ast.For)
    loop.body = node.body
    return loop


def is_test(node: ast.stmt) -> bool:
    """Return whether pytest or unittest would collect tests from this module-level statement."""
    if isinstance(node, ast.ClassDef):
        return (_is_unittest(node) or node.name.startswith("Test")) and bool(_list_test_methods(node))
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def extract_definition_cases(node: ast.stmt, names: Collection[str], values: Mapping[str, Any]) -> Iterator[Case]:
    """Yield the tests in a test function or a test class.

    names   names that the submission defines
    values  values of names that the module assigns

    Raises ParseError for coroutines, and for features of pytest other than marks and parameters.
    """
    if isinstance(node, ast.ClassDef):
        if not _is_skipped(node):
            for method in _list_test_methods(node):
                yield from _extract_function_cases(method, node, names, values)
    elif isinstance(node, ast.FunctionDef):
        yield from _extract_function_cases(node, None, names, values)
    else:
        raise ParseError("a test is a coroutine")


def strip_decorators(node: ast.stmt) -> ast.stmt | None:
    """Remove the decorators of a test class and of its tests, and return the class; None for a function."""
    if not isinstance(node, ast.ClassDef):
        return None
    node.decorator_list = []
    for method in _list_test_methods(node):
        method.decorator_list = []
    return node


def _extract_function_cases(
    node: ast.FunctionDef, owner: ast.ClassDef | None, names: Collection[str], values: Mapping[str, Any]
) -> Iterator[Case]:
    if _is_skipped(node):
        return
    inner = owner.body if owner else ()
    has_fixtures = any(isinstance(method, ast.FunctionDef) and method.name in _FIXTURES for method in inner)
    for arguments in _expand_parameters(node, values):
        if not has_fixtures:
            examples = list(extract_cases(node.body, names, {**values, **arguments}, {}))
            if examples and all(case.expected for case in examples):
                yield from examples
                continue
        yield Case(_write_program(node, owner, arguments, has_fixtures=has_fixtures), "")


def _write_program(
    node: ast.FunctionDef, owner: ast.ClassDef | None, arguments: Mapping[str, Any], *, has_fixtures: bool
) -> str:
    if owner and _is_unittest(owner):
        return f'unittest.TestSuite([{owner.name}("{node.name}")]).debug()'
    call = f"{node.name}({', '.join(f'{name}={to_literal(value)}' for name, value in arguments.items())})"
    if owner:
        return "\n".join([f"test = {owner.name}()", *["test.setup_method()"] * has_fixtures, f"test.{call}"])
    plain = ast.FunctionDef(node.name, node.args, node.body, [], None, lineno=0, col_offset=0)
    return f"{unparse([plain])}\n{call}"


def _expand_parameters(node: ast.FunctionDef, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of each call of a test function, from its parametrize marks. Raises ParseError."""
    sets: list[dict[str, Any]] = [{}]
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(ast.Attribute(attr="parametrize"), [ast.expr() as names, ast.expr() as rows, *_]):
                sets = [
                    {**arguments, **row} for row in _evaluate_parametrize(names, rows, values) for arguments in sets
                ]
            case ast.Attribute(ast.Attribute(attr="mark")) | ast.Call(ast.Attribute(ast.Attribute(attr="mark"))):
                pass
            case _:
                raise ParseError(f"a test is decorated: {shorten(ast.unparse(decorator))}")
    expected = {argument.arg for argument in node.args.args} - {"self"}
    if missing := expected - sets[0].keys() if sets else ():
        raise ParseError(f"a test needs the fixture {', '.join(sorted(missing))}")
    return sets


def _evaluate_parametrize(names: ast.expr, rows: ast.expr, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        argnames, argvalues = evaluate(names, values), evaluate(rows, values)
        parameters = [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else list(argnames)
        return [dict(zip(parameters, [row] if len(parameters) == 1 else row, strict=True)) for row in argvalues]
    except (NotLiteral, ValueError, TypeError) as error:
        raise ParseError(f"the parameters of a test are not literals: {shorten(error)}") from None


def _list_test_methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [inner for inner in node.body if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test")]


def _is_unittest(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("TestCase") for base in node.bases)


def _is_skipped(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return any(
        getattr(inner, "attr", getattr(inner, "id", "")) in _SKIPPED
        for decorator in node.decorator_list
        for inner in ast.walk(decorator)
    )
