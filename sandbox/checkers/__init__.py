"""Rules of comparison, one file each. The file's name is the checker's name.

A checker is two pure functions, run in the trusted parent only:
    same(printed, expected) -> bool          text that a program printed against the expected text
    same_value(returned, expected) -> bool   value that a call returned against the expected value
"""

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any, Protocol


class Checker(Protocol):
    @staticmethod
    def same(printed: str, expected: str) -> bool: ...

    @staticmethod
    def same_value(returned: Any, expected: Any) -> bool: ...


@cache
def names() -> tuple[str, ...]:
    """Names of all checkers, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


@cache
def load(name: str) -> Checker:
    """The checker of that name. Raises ValueError, naming the choices, where there is none."""
    if name not in names():
        raise ValueError(f"no checker {name!r}; choose one of {', '.join(names())}")
    module: Checker = import_module(f"{__name__}.{name}")  # type: ignore[assignment]
    return module
