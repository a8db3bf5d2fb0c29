"""Equality of plain values, which several checkers share.

Covered: None, bool, int, float, str, list, tuple and dict, of exactly these types, nested to any depth:
values are walked with an explicit stack, so neither 100,000 levels nor a deep caller raises RecursionError.
Not covered: sets, bytes, classes. Nothing equals them, not even themselves: an expected value is JSON, which
has none.

NaN equals nothing. Python's own == on lists and dicts takes every object to be equal to itself, and `json` decodes
every NaN to the same object.
"""

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

# JSON's types: a tuple is a list, true is not 1, and an object's keys are strings.
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
_MAX_KEY_BITS = 2_000  # some 600 digits: writing an int is quadratic, and CPython may refuse it from 640


class NumberKey(str):
    """A key of a returned dict, as JSON writes it, that was a number, a bool or None. The hash of a text cannot be
    foreseen, so a program that returns a dict whose keys all have the same hash cannot keep us busy."""


def json_key(key: object) -> str | None:
    """Return the key as `json.dumps` writes it; None if it cannot, or if an integer is too long for a key."""
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
    key_of: Callable[[object], Any] = json_key,
) -> bool:
    """Return whether two values have the same shape and kinds, and equal content.

    same_number   compares a returned number with the expected one; everything else must be equal exactly
    kinds         the kind of each type: values of different kinds differ
    key_of        returns the form in which a dict's key is compared; None if it equals no key
    """
    # Lists and dicts tell their size before their members: no walk begins another, so zip drops nothing.
    for (kind, value), (expected_kind, expected_value) in zip(
        _walk(returned, kinds, key_of), _walk(expected, kinds, key_of), strict=False
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
    # Size first: sorting needs memory, and only the expected value's size is trusted.
    if _size(returned) != _size(expected):
        return False
    forms, forms_expected = _sorted_forms(returned), _sorted_forms(expected)
    return forms is not None and forms == forms_expected


def _walk(value: Any, kinds: Mapping[type, str], key_of: Callable[[object], Any]) -> Iterator[tuple[str | None, Any]]:
    """Yield the parts of a value from left to right: (kind, scalar), ("list", length), ("dict", length) and ("dict",
    sorted keys), and (None, value) for a value that is not plain."""
    pending = [value]
    while pending:
        value = pending.pop()
        kind = kinds.get(type(value))
        if type(value) in (list, tuple):
            yield kind, len(value)
            pending.extend(reversed(value))
        elif type(value) is dict:
            yield kind, len(value)
            members = {key_of(key): member for key, member in value.items()}
            if None in members or len(members) != len(value):  # {1: "a", "1": "b"} is not a JSON object
                yield None, value
            else:
                keys = tuple(sorted(members))
                yield kind, keys
                pending.extend(members[key] for key in reversed(keys))
        else:
            yield kind, value


def _size(value: Any) -> int:
    return sum(1 for _ in _walk(value, JSON_KINDS, json_key))


def _sorted_forms(items: list[Any]) -> list[Any] | None:
    """Return the walk (kind, value, kind, value, ...) of each item, sorted; None if an item equals nothing.

    They are sorted rather than counted by hash: a list of multiples of 2**61 - 1, which all hash to 0, would take
    quadratic time. Two walks first differ in a kind or in two values of one kind, so any two can be ordered.
    """
    if any(kind is None or value != value for kind, value in _walk(items, JSON_KINDS, json_key)):
        return None
    if {JSON_KINDS.get(type(item)) for item in items} in ({"number"}, {"str"}):
        return sorted(items)  # flat lists: a tuple for each part would take five times the time and memory
    return sorted(tuple(chain.from_iterable(_walk(item, JSON_KINDS, json_key))) for item in items)
