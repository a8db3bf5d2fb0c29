"""What tests use of pytest: the sandbox has a stand-in with some of its names (sandbox/languages/_pytest.py)."""

import ast
from collections.abc import Sequence

from curate.reading.assertions.dependencies import bound_names, parse, used_names
from curate.reading.values import ParseError

_NAMES = frozenset({"raises", "approx", "fail", "mark"})


def add_pytest_import(nodes: Sequence[ast.stmt], tests: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with an import of pytest if they or the tests need one. Raises ParseError for other names
    of pytest than those that the stand-in has."""
    names: set[str] = set()
    for inner in (inner for node in (*nodes, *tests) for inner in ast.walk(node)):
        match inner:
            case ast.Attribute(ast.Name("pytest"), name):
                names.add(name)
            case ast.ImportFrom("pytest", aliases):
                names |= {alias.name for alias in aliases}
    if unknown := sorted(names - _NAMES):
        raise ParseError(f"the tests use pytest.{unknown[0]}")
    is_used = any("pytest" in used_names(node) for node in (*nodes, *tests))
    return [*(parse("import pytest", "pytest") if is_used and "pytest" not in bound_names(nodes) else ()), *nodes]
