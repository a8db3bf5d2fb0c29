"""The values of a row that a condition can name, with their types."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from curate.problem import COLUMNS
from sandbox import Suite

Row = Mapping[str, Any]


class ValueType(Enum):
    """The type of a value, in the words of error messages."""

    NUMBER = "a number"
    TEXT = "a text"
    TRUTH = "true or false"
    TEXTS = "a list of texts"
    NUMBERS = "a list of numbers"


@dataclass(frozen=True, slots=True)
class TypedExpression:
    """A part of a condition: its type, and a function that computes its value for a row; None is null."""

    value_type: ValueType
    evaluate: Callable[[Row], Any]


_KINDS = {
    "string": ValueType.TEXT,
    "int32": ValueType.NUMBER,
    "float64": ValueType.NUMBER,
    "bool": ValueType.TRUTH,
    "list<string>": ValueType.TEXTS,
    "list<int32>": ValueType.NUMBERS,
}
# Sources that do not state these leave them empty. An empty date must not count as an early one, so it is null.
_EMPTY_IS_NULL = frozenset({"date", "difficulty", "language", "platform", "title", "url"})


def _kind_of_suite(suite: Suite) -> str:
    if suite.assertions is not None:
        return "assertions"
    return "stdin" if suite.entry_point is None else "function"


# name: (type, meaning, value); these are computed from the tests, which are then read, too
SUITE_VALUES: dict[str, tuple[ValueType, str, Callable[[Suite], Any]]] = {
    "kind": (ValueType.TEXT, "kind of the tests: stdin, function or assertions", _kind_of_suite),
    "checker": (ValueType.TEXT, "rule by which answers are compared", lambda suite: suite.checker),
    "wall_seconds": (
        ValueType.NUMBER,
        "limit of each run in wall seconds, as in `tests`",
        lambda s: s.limits.wall_seconds,
    ),
    "memory_mb": (ValueType.NUMBER, "limit of each run in MB, as in `tests`", lambda suite: suite.limits.memory_mb),
}
SUITE = "suite"  # where a row has its parsed tests


def names() -> list[str]:
    """Return all names that a condition can use."""
    return sorted([*COLUMNS, *SUITE_VALUES])


def lookup(name: str) -> TypedExpression:
    """Return the value with this name. Raises KeyError if there is none."""
    if name in SUITE_VALUES:
        kind, _, value = SUITE_VALUES[name]
        return TypedExpression(kind, lambda row: value(row[SUITE]))
    kind = _KINDS[COLUMNS[name][0].rstrip("?")]
    if name in _EMPTY_IS_NULL:
        return TypedExpression(kind, lambda row: row[name] or None)
    return TypedExpression(kind, lambda row: row[name])
