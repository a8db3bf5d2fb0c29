"""Equality of plain values, for several checkers.

Plain values are None, bool, int, float, str, list, tuple and dict, of exactly these types. Any other value, such as a
set, bytes or an instance of a class, equals nothing, not even itself, since expected values are JSON. An explicit stack
traverses any depth without RecursionError.

NaN equals nothing. In contrast, == on lists and dicts treats each object as equal to itself, and `json` decodes every
NaN to the same object.
"""

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

# The JSON type of each Python type.
JSON_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "bool",
    int: "number",
    float: "number",
    str: "str",
    list: "list",
    tuple: "list",
    dict: "dict",
}
# Some 600 digits. The conversion of an int to text takes quadratic time, and CPython can limit it to 640 digits.
_MAX_KEY_BITS = 2_000


class NumberKey(str):
    """A dict key that is a number, bool or None, as its JSON text. Unlike a number's, its hash is randomized, so a
    program cannot force collisions."""


def format_json_key(key: object) -> str | None:
    """Return the key as `json.dumps` writes it; None if JSON has no such key, or for an integer that is too long."""
    if type(key) in (str, NumberKey):
        return str(key)
    if type(key) is int and key.bit_length() > _MAX_KEY_BITS:
        return None
    return json.dumps(key) if JSON_KINDS.get(type(key)) in {"null", "bool", "number"} else None


def same_structure(
    returned: Any,
    expected: Any,
    *,
    same_number: Callable[[Any, Any], bool] = operator.eq,
    kinds: Mapping[type, str] = JSON_KINDS,
    normalize_key: Callable[[object], Any] = format_json_key,
) -> bool:
    """Return whether two values have the same shape and kinds, and equal content.

    same_number     compares a returned number with the expected one; everything else must be exactly equal
    kinds           the kind of each type; values of different kinds differ
    normalize_key   returns the same value for equal keys of a dict; None if the key equals no other
    """
    # The size of a list or dict precedes its members, so no walk is a prefix of another, and zip drops no part.
    for (kind, value), (expected_kind, expected_value) in zip(
        _walk(returned, kinds, normalize_key), _walk(expected, kinds, normalize_key), strict=False
    ):
        if kind is None or kind != expected_kind:
            return False
        if not (same_number(value, expected_value) if kind == "number" else value == expected_value):
            return False
    return True


def same_multiset(returned: Iterable[Any], expected: Iterable[Any]) -> bool:
    """Return whether both have the same members in any order, compared as JSON."""
    returned, expected = list(returned), list(expected)
    if same_structure(returned, expected):
        return True
    # Sizes first, since sorting takes memory, and only the expected value's size is trusted.
    if _count_parts(returned) != _count_parts(expected):
        return False
    walks, expected_walks = _sort_walks(returned), _sort_walks(expected)
    return walks is not None and walks == expected_walks


def _walk(
    value: Any, kinds: Mapping[type, str], normalize_key: Callable[[object], Any]
) -> Iterator[tuple[str | None, Any]]:
    """Yield the parts of a value in order: (kind, scalar), ("list", length), ("dict", length), ("dict", sorted keys),
    and (None, value) for a value that is not plain."""
    pending = [value]
    while pending:
        value = pending.pop()
        kind = kinds.get(type(value))
        if type(value) in (list, tuple):
            yield kind, len(value)
            pending.extend(reversed(value))
        elif type(value) is dict:
            yield kind, len(value)
            members = {normalize_key(key): member for key, member in value.items()}
            # Not a JSON object, such as {1: "a", "1": "b"}.
            if None in members or len(members) != len(value):
                yield None, value
            else:
                keys = tuple(sorted(members))
                yield kind, keys
                pending.extend(members[key] for key in reversed(keys))
        else:
            yield kind, value


def _count_parts(value: Any) -> int:
    return sum(1 for _ in _walk(value, JSON_KINDS, format_json_key))


def _sort_walks(items: list[Any]) -> list[Any] | None:
    """Return the walk (kind, value, kind, value, ...) of each item, sorted; None if an item equals nothing.

    Sorting avoids the quadratic time of hash collisions, such as multiples of 2**61 - 1. Two walks first differ in a
    kind or in two values of one kind, so any two are comparable.
    """
    if any(kind is None or value != value for kind, value in _walk(items, JSON_KINDS, format_json_key)):
        return None
    if {JSON_KINDS.get(type(item)) for item in items} in ({"number"}, {"str"}):
        return sorted(items)  # a tuple for each number or string would take five times the time and memory
    return sorted(tuple(chain.from_iterable(_walk(item, JSON_KINDS, format_json_key))) for item in items)
