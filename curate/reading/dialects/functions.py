"""Turn the test functions and test classes of a module into cases, as pytest and unittest would run them.

If all that a test says is that calls of the submission return certain values, each of these calls becomes a case.
Otherwise the function or method is one case. Skipped tests are left out.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from curate.reading.dialects.dependencies import unparse
from curate.reading.dialects.literals import NotLiteral, evaluate, to_literal
from curate.reading.dialects.statements import extract_cases
from curate.reading.values import ParseError, shorten
from sandbox import Case

_SKIPPED = {"skip", "skipif", "xfail", "skipIf", "skipUnless", "expectedFailure"}
_FIXTURES = {"setUp", "tearDown", "setUpClass", "tearDownClass", "setup_method", "teardown_method", "setup_class"}


def is_test(node: ast.stmt) -> bool:
    """Say whether pytest or unittest would find tests in this statement of a module."""
    if isinstance(node, ast.ClassDef):
        return (_is_unittest(node) or node.name.startswith("Test")) and bool(_methods(node))
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def extract_definition_cases(node: ast.stmt, names: Collection[str], values: Mapping[str, Any]) -> Iterator[Case]:
    """Yield the tests in a test function or a test class.

    names   what the submission defines
    values  values of names that the module assigns

    Raises ParseError for a test that needs more of pytest than marks and parameters.
    """
    if isinstance(node, ast.FunctionDef):
        yield from _function_cases(node, names, values)
    elif isinstance(node, ast.ClassDef):
        for method in _methods(node):
            yield from _method_cases(node, method, names, values)
    else:
        raise ParseError("a test is a coroutine")


def required_class(node: ast.stmt) -> ast.stmt | None:
    """Return the definition that the cases of a test need: its class, without decorators; None for a function."""
    if not isinstance(node, ast.ClassDef):
        return None
    node.decorator_list = []
    for method in _methods(node):
        method.decorator_list = []
    return node


def _function_cases(node: ast.FunctionDef, names: Collection[str], values: Mapping[str, Any]) -> Iterator[Case]:
    if _is_skipped(node):
        return
    plain = ast.FunctionDef(node.name, node.args, node.body, [], None, lineno=0, col_offset=0)
    for arguments in _parameter_sets(node, values):
        if (examples := _examples(node.body, names, {**values, **arguments})) is not None:
            yield from examples
            continue
        call = ", ".join(f"{name}={to_literal(value)}" for name, value in arguments.items())
        yield Case(f"{unparse([plain])}\n{node.name}({call})", "")


def _method_cases(
    owner: ast.ClassDef, method: ast.FunctionDef, names: Collection[str], values: Mapping[str, Any]
) -> Iterator[Case]:
    if _is_skipped(owner) or _is_skipped(method):
        return
    has_fixtures = any(isinstance(node, ast.FunctionDef) and node.name in _FIXTURES for node in owner.body)
    for arguments in _parameter_sets(method, values):
        examples = None if has_fixtures else _examples(method.body, names, {**values, **arguments})
        if examples is not None:
            yield from examples
        elif _is_unittest(owner):
            yield Case(f'unittest.TestSuite([{owner.name}("{method.name}")]).debug()', "")
        else:
            call = ", ".join(f"{name}={to_literal(value)}" for name, value in arguments.items())
            prepared = ["test.setup_method()"] if has_fixtures else []
            yield Case("\n".join([f"test = {owner.name}()", *prepared, f"test.{method.name}({call})"]), "")


def _examples(body: Sequence[ast.stmt], names: Collection[str], values: Mapping[str, Any]) -> list[Case] | None:
    """Return the cases if each assertion of the test is an example, and None otherwise."""
    examples = list(extract_cases(body, names, values, {}))
    return examples if examples and all(case.expected for case in examples) else None


def _parameter_sets(node: ast.FunctionDef, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of each call of a test function, from its parametrize marks. Raises ParseError."""
    sets: list[dict[str, Any]] = [{}]
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(ast.Attribute(attr="parametrize"), [ast.expr() as named, ast.expr() as rows, *_]):
                sets = [{**arguments, **row} for row in _rows(named, rows, values) for arguments in sets]
            case ast.Attribute(ast.Attribute(attr="mark")) | ast.Call(ast.Attribute(ast.Attribute(attr="mark"))):
                pass
            case _:
                raise ParseError(f"a test is decorated: {shorten(ast.unparse(decorator))}")
    expected = {argument.arg for argument in node.args.args} - {"self"}
    if missing := expected - sets[0].keys() if sets else ():
        raise ParseError(f"a test needs the fixture {', '.join(sorted(missing))}")
    return sets


def _rows(named: ast.expr, rows: ast.expr, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sets of arguments that one parametrize mark gives. Raises ParseError."""
    try:
        parameters, values_of_rows = evaluate(named, values), evaluate(rows, values)
        names = [name.strip() for name in parameters.split(",")] if isinstance(parameters, str) else list(parameters)
        return [dict(zip(names, [row] if len(names) == 1 else row, strict=True)) for row in values_of_rows]
    except (NotLiteral, ValueError, TypeError) as error:
        raise ParseError(f"the parameters of a test are not literals: {shorten(error)}") from None


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [inner for inner in node.body if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test")]


def _is_unittest(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("TestCase") for base in node.bases)


def _is_skipped(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return any(
        getattr(inner, "attr", getattr(inner, "id", "")) in _SKIPPED
        for decorator in node.decorator_list
        for inner in ast.walk(decorator)
    )
