"""Tests in Python code, in one of these forms:

a list     ["assert f(1) == 2", ...], or one text of such lines: MBPP, AceCode
a check    def check(candidate): ...: HumanEval, LeetCodeDataset
a module   test functions and classes of pytest or unittest, which import from `solution`: KodCode

They become an assertion suite (`sandbox.Assertions`). A check that consists of examples, as in trainers' copies of
LeetCodeDataset, can become calls instead. This module executes nothing.
"""

import ast
import sys
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from curate.reading.dialects import ParsedTests, parse_function_name
from curate.reading.dialects.dependencies import (
    BINDING,
    find_bound_names,
    find_undefined_names,
    find_used_names,
    parse,
    unparse,
)
from curate.reading.dialects.json_tests import order_arguments
from curate.reading.dialects.literals import NotLiteral, evaluate
from curate.reading.dialects.statements import (
    extract_cases,
    extract_definition_cases,
    find_asserting_functions,
    is_no_op,
    is_test,
    strip_decorators,
)
from curate.reading.signature import find_parameter_names
from curate.reading.values import ParseError, allow_long_integers, dump_json, shorten
from sandbox import Assertions, Case

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PYTEST_NAMES = frozenset({"raises", "approx", "fail", "mark"})  # names in sandbox/languages/_pytest.py
_SUBMISSION = "solution"  # name by which test files import the submission
_METADATA_NAME = "METADATA"  # HumanEval's variable with the author of a test


def read(
    tests: object,
    entry_point: str | None = None,
    *,
    preamble: str = "",
    setup: str = "",
    defined_names: Collection[str] = (),
    classes: Collection[str] | None = None,
) -> ParsedTests:
    """Convert Python code into an assertion suite.

    tests          a text or a list of texts
    entry_point    the tested function: `f` or `Solution().f`; None to find it in the call at the end of the text
    preamble       code that runs before the submission, such as imports and helper functions of the statement
    setup          code that runs before each test
    defined_names  names that solutions define; these can shadow builtins such as `sum`
    classes        names of classes in solutions; None if unknown, so that capitalized names count as classes

    Raises ParseError if the tests have none of the forms above, or assert nothing.
    """
    before = parse(preamble, "the given code")
    prepared = parse(setup, "the setup of the tests")
    nodes = [node for text in (tests if isinstance(tests, list) else [tests]) for node in parse(text, "a test")]
    imported, nodes = _remove_solution_imports([*prepared, *nodes])
    code = _divide_tests(nodes, entry_point)
    shared = _add_pytest_import(code.shared, [*code.body, *code.tests])
    unknown = [name for name in find_undefined_names([*before, *shared, *code.body, *code.tests]) if name != "pytest"]
    called = [code.entry_point.partition("(")[0]] if code.entry_point else []
    called += sorted(
        set(defined_names) & {name for node in [*code.body, *code.tests] for name in find_used_names(node)}
    )
    # In the harnesses of the sources, tests run in the solution's module and may use its imports.
    modules = [name for name in unknown if name in sys.stdlib_module_names and name not in [*called, *imported]]
    names = tuple(dict.fromkeys(name for name in [*called, *imported, *unknown] if name not in modules))
    if not names:
        raise ParseError("the tests use nothing that a submission could define")
    tested = tuple(name for name in names if (name[:1].isupper() if classes is None else name in classes))
    values = _find_constants([*before, *shared])
    suite_cases = list(extract_cases(code.body, names, values, find_asserting_functions([*before, *shared])))
    for node in code.tests:
        suite_cases += extract_definition_cases(node, names, values)
    if any(isinstance(node, ast.ClassDef) for node in code.tests):
        modules.append("unittest")
        shared += [node for node in map(strip_decorators, code.tests) if node is not None]
    if not suite_cases:
        raise ParseError("the tests assert nothing")
    shared_code = ""
    # Cases without an expected value are statements, which need the shared code.
    if not all(case.expected for case in suite_cases):
        imports = parse(
            "\n".join(f"import {name}" for name in modules if name not in find_bound_names(shared)), "imports"
        )
        shared_code = unparse([*imports, *shared])
    suite_assertions = Assertions(names, preamble, shared_code, tested)
    return ParsedTests(tuple(suite_cases), checker="python", assertions=suite_assertions)


def read_examples(code: object, entry_point: str | None = None, starter_code: str = "") -> ParsedTests:
    """Convert a check of examples, such as `assert candidate(nums = [1, 2]) == 3`, into calls with JSON arguments.

    entry_point   name of the function; None to find it in the call at the end of the text
    starter_code  code with the signature, which determines the order of named arguments; empty to keep their order

    Raises ParseError if the check contains anything else.
    """
    nodes = parse(code, "the check")
    check = next((node for node in nodes if isinstance(node, ast.FunctionDef) and _is_check(node)), None)
    if check is None:
        raise ParseError("there is no function check(candidate)")
    function = entry_point or parse_function_name(_find_checked_function(nodes), "the argument of check")
    if function is None:
        raise ParseError("the function that check is for is not named")
    order = find_parameter_names(starter_code, function)
    candidate = check.args.args[0].arg
    try:
        with allow_long_integers():
            cases = [_read_example(node, candidate, order) for node in check.body if not is_no_op(node)]
    except ParseError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ParseError(f"the check cannot be read: {shorten(error)}") from None
    return ParsedTests(tuple(cases), function, "exact")


def _read_example(node: ast.stmt, candidate: str, order: list[str] | None) -> Case:
    match node:
        case ast.Assert(ast.Compare(ast.Call(ast.Name(name), positional, keywords), [ast.Eq()], [expected])) if (
            name == candidate
        ):
            values = [ast.literal_eval(argument) for argument in positional]
            named = [(keyword.arg, ast.literal_eval(keyword.value)) for keyword in keywords]
            arguments = order_arguments(values, named, order)
            return Case(dump_json(arguments, "an input"), dump_json(ast.literal_eval(expected), "an output"))
    raise ParseError(f"an assertion that is not an example: {shorten(ast.unparse(node))}")


class _TestSections(NamedTuple):
    """The sections of test code.

    shared       statements that run before each test
    body         statements that contain tests, and the statements that these need
    tests        test functions and test classes
    entry_point  the tested function or method; None if unknown
    """

    shared: list[ast.stmt]
    body: list[ast.stmt]
    tests: list[ast.stmt]
    entry_point: str | None


def _divide_tests(nodes: Sequence[ast.stmt], entry_point: str | None) -> _TestSections:
    """Divide test code into sections. Raises ParseError if the function that `check` tests is unknown."""
    check = next((node for node in nodes if isinstance(node, ast.FunctionDef) and _is_check(node)), None)
    tests = [node for node in nodes if is_test(node)]
    others = [node for node in nodes if node is not check and node not in tests and not _is_incidental(node, tests)]
    if check is not None:
        entry_point = entry_point or _find_checked_function(nodes)
        if entry_point is None:
            raise ParseError("the function that check is for is not named")
        return _TestSections(others, _replace_parameter(check, entry_point), tests, entry_point)
    if tests:
        return _TestSections(others, [], tests, entry_point)
    shared = _select_definitions(others)
    return _TestSections(shared, [node for node in others if node not in shared], [], entry_point)


def _is_check(function: ast.FunctionDef) -> bool:
    return function.name == "check" and len(function.args.args) == 1


def _is_incidental(node: ast.stmt, tests: Sequence[ast.stmt]) -> bool:
    """Return whether a statement only runs or describes tests."""
    match node:
        case ast.Assign([ast.Name(name)]):
            return name == _METADATA_NAME
        case ast.Expr(ast.Call(ast.Name(name))):
            return name in ("check", "print") or name in {getattr(test, "name", "") for test in tests}
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("unittest" | "pytest"), "main"))):
            return True
        case ast.If(ast.Compare(ast.Name("__name__"))):
            return True
    return False


def _find_checked_function(nodes: Sequence[ast.stmt]) -> str | None:
    """Return the argument of `check` in the last statement, such as `f` or `Solution().f`; None without one."""
    match nodes[-1]:
        case ast.Expr(ast.Call(ast.Name("check"), [argument])):
            return ast.unparse(argument)
    return None


def _replace_parameter(check: ast.FunctionDef, entry_point: str) -> list[ast.stmt]:
    """Return the body of the function `check`, with its parameter replaced by the entry point. Raises ParseError."""
    candidate = check.args.args[0].arg
    if candidate in find_bound_names(check.body) or any(
        isinstance(node, ast.Return) for node in _list_own_nodes(check)
    ):
        raise ParseError("the check assigns its parameter, or returns something")
    target = parse(entry_point, "the name of the function")[0]
    if not isinstance(target, ast.Expr):
        raise ParseError(f"{entry_point} is not a function")
    function = target.value

    class ParameterReplacer(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return function if node.id == candidate else node

    return [ParameterReplacer().visit(node) for node in check.body]


def _list_own_nodes(function: ast.FunctionDef) -> list[ast.AST]:
    """Return the nodes of a function, except those of nested functions."""
    nodes: list[ast.AST] = []
    unvisited: list[ast.AST] = list(function.body)
    while unvisited:
        node = unvisited.pop()
        nodes.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            unvisited += ast.iter_child_nodes(node)
    return nodes


def _select_definitions(nodes: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return imports, functions and classes, and the assignments that they use."""
    defined = [node for node in nodes if isinstance(node, _DEFINITIONS)]
    names = {name for node in defined for name in find_used_names(node)}
    return [
        node for node in nodes if node in defined or (isinstance(node, BINDING) and find_bound_names([node]) & names)
    ]


def _find_constants(nodes: Sequence[ast.stmt]) -> dict[str, Any]:
    """Return the values of the names that are assigned exactly once, to a literal."""
    values: dict[str, Any] = {}
    for node in nodes:
        match node:
            case ast.Assign([ast.Name(name)], value) if name not in find_bound_names(
                other for other in nodes if other is not node
            ):
                try:
                    values[name] = evaluate(value, {})
                except NotLiteral:
                    continue
    return values


def _remove_solution_imports(nodes: Sequence[ast.stmt]) -> tuple[list[str], list[ast.stmt]]:
    """Remove imports of the submission. Return the imported names, and the other statements."""
    remover = _ImportRemover()
    kept = [remover.visit(node) for node in nodes]
    return list(dict.fromkeys(remover.names)), [node for node in kept if not isinstance(node, ast.Pass)]


class _ImportRemover(ast.NodeTransformer):
    """A transformer that removes imports of the submission, because the sandbox defines the imported names."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.modules: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        if node.module != _SUBMISSION:
            return node
        self.names += [alias.name for alias in node.names if alias.name != "*"]
        renamed = [alias for alias in node.names if alias.asname not in (None, alias.name)]
        if not renamed:
            return ast.Pass()
        pairs = ast.Tuple([ast.Name(str(alias.asname), ast.Store()) for alias in renamed], ast.Store())
        values = ast.Tuple([ast.Name(alias.name, ast.Load()) for alias in renamed], ast.Load())
        return ast.Assign([pairs], values, lineno=node.lineno)

    def visit_Import(self, node: ast.Import) -> ast.stmt:
        self.modules |= {alias.asname or alias.name for alias in node.names if alias.name == _SUBMISSION}
        node.names = [alias for alias in node.names if alias.name != _SUBMISSION]
        return node if node.names else ast.Pass()

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.modules:
            self.names.append(node.attr)
            return ast.Name(node.attr, node.ctx)
        return node


def _add_pytest_import(nodes: Sequence[ast.stmt], tests: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements, with an import of pytest if they or the tests need it.

    Raises ParseError for names of pytest that the sandbox does not provide.
    """
    names: set[str] = set()
    for inner in (inner for node in (*nodes, *tests) for inner in ast.walk(node)):
        match inner:
            case ast.Attribute(ast.Name("pytest"), name):
                names.add(name)
            case ast.ImportFrom("pytest", aliases):
                names |= {alias.name for alias in aliases}
    if unknown := sorted(names - _PYTEST_NAMES):
        raise ParseError(f"the tests use pytest.{unknown[0]}")
    is_used = any("pytest" in find_used_names(node) for node in (*nodes, *tests))
    return [*(parse("import pytest", "pytest") if is_used and "pytest" not in find_bound_names(nodes) else ()), *nodes]
