"""What tests use of pytest, since the sandbox has no pytest: raises, approx and fail, as code that runs before them."""

import ast
from collections.abc import Iterable, Sequence

from curate.reading.assertions.needs import parsed
from curate.reading.values import Unparsable

NAMES = ("raises", "approx", "fail")
CODE = """\
class pytest:
    class raises:
        def __init__(self, expected, function=None, *arguments, match=None, **keywords):
            self.expected, self.match = expected, match
            if function is not None:
                with self:
                    function(*arguments, **keywords)

        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            import re
            assert kind is not None, f"{self.expected} was not raised"
            if not issubclass(kind, self.expected):
                return False
            self.type, self.value = kind, error
            assert self.match is None or re.search(self.match, str(error)), f"{error} does not match {self.match}"
            return True

    class approx:
        def __init__(self, expected, rel=None, abs=None, nan_ok=False):
            self.expected, self.rel, self.abs, self.nan_ok = expected, rel, abs, nan_ok

        def __eq__(self, actual):
            return self.near(actual, self.expected)

        def near(self, actual, expected):
            import math
            if isinstance(expected, dict):
                return actual.keys() == expected.keys() and all(self.near(actual[k], expected[k]) for k in expected)
            if isinstance(expected, (list, tuple)):
                return len(actual) == len(expected) and all(map(self.near, actual, expected))
            if actual == expected or isinstance(expected, (bool, str)) or expected is None:
                return actual == expected
            if math.isnan(expected):
                return self.nan_ok and math.isnan(actual)
            rel = self.rel if self.rel is not None else 1e-6 if self.abs is None else 0.0
            least = 1e-12 if self.abs is None else self.abs
            return math.isfinite(expected) and abs(actual - expected) <= max(rel * abs(expected), least)

    def fail(reason="", pytrace=True):
        raise AssertionError(reason)
"""


def without_import(nodes: Sequence[ast.stmt], tests: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with CODE in place of imports of pytest, if they or the tests use it. Raises Unparsable."""
    imported: list[ast.stmt] = []
    others: list[ast.stmt] = []
    for node in nodes:
        match node:
            case ast.Import([ast.alias("pytest", None)]):
                pass
            case ast.ImportFrom("pytest", aliases):
                _check(alias.name for alias in aliases)
                imported += parsed("\n".join(f"{a.asname or a.name} = pytest.{a.name}" for a in aliases), "pytest")
            case _:
                others.append(node)
    attributes = {
        inner.attr
        for node in (*others, *tests)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "pytest"
    }
    attributes -= {"mark"}  # decorators, which are read and not executed
    _check(attributes)
    return [*(parsed(CODE, "pytest") if attributes or imported else ()), *imported, *others]


def _check(names: Iterable[str]) -> None:
    for name in sorted(names):
        if name not in NAMES:
            raise Unparsable(f"the tests use pytest.{name}")
