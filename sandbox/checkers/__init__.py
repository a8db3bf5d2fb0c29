"""Rules of comparison, one file each. The file's name is the checker's name.

A checker is two pure functions, which run only in the trusted worker:
    same_output(printed, expected) -> bool   compares a program's output with the expected output
    same_value(returned, expected) -> bool   compares a call's return value with the expected value

lcb               LiveCodeBench's rules, the default
tokens            tokens on each line, with a tolerance where a decimal is expected
floats            tokens on each line, with a tolerance for every number
exact             character by character
unordered_lines   the same lines in any order
codeforces        tokens in any whitespace, yes and no without case, decimals with a tolerance
any_of            one of several accepted outputs or values
python            Python's ==, for the values of assertion suites only

_text             lines and tokens of printed text
_values           equality of plain values
_python_values    equality of plain values under Python's ==
_numbers          the tolerance
"""

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any, Protocol


class Checker(Protocol):
    @staticmethod
    def same_output(printed: str, expected: str) -> bool: ...

    @staticmethod
    def same_value(returned: Any, expected: Any) -> bool: ...


@cache
def list_names() -> tuple[str, ...]:
    """Return the names of all checkers, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


@cache
def load(name: str) -> Checker:
    """Return the checker with this name. Raises ValueError if there is none."""
    if name not in list_names():
        raise ValueError(f"unknown checker {name!r}; choose one of {', '.join(list_names())}")
    module: Checker = import_module(f"{__name__}.{name}")  # type: ignore[assignment]
    return module
