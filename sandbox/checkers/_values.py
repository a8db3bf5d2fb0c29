"""Equality of plain values: shared by the checkers.

Covered: None, bool, int, float, str, list, tuple and dict, of exactly these types, nested to any depth:
values are walked with an explicit stack, so neither 100,000 levels nor a deep caller raises RecursionError.
Not covered: sets, bytes, classes. Nothing equals them, not even themselves: an expected value is JSON, which
has none.

NaN equals nothing. Python's own == on lists and dicts takes the same object for equal first, and `json`
decodes every NaN to one object.
"""

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

# JSON's view: a tuple is a list, true is not 1, and an object's keys are strings.
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
_LONGEST_KEY_BITS = 2_000  # some 600 digits: writing an int is quadratic, and CPython may refuse it from 640


class NumberKey(str):
    """The key of a returned dict that was a number, bool or None, in the words of JSON. As text it hashes to what
    nobody can foresee: a program that returns a dict of numbers which all hash alike cannot keep us busy."""


def json_key(key: object) -> str | None:
    """The key as `json.dumps` writes it; None where it cannot, and for integers too long for a key."""
    if type(key) in (str, NumberKey):
        return str(key)
    if type(key) is int and key.bit_length() > _LONGEST_KEY_BITS:
        return None
    return json.dumps(key) if JSON_KINDS.get(type(key)) in {"null", "bool", "number"} else None


def same(
    returned: Any,
    expected: Any,
    *,
    same_number: Callable[[Any, Any], bool] = operator.eq,
    kinds: Mapping[type, str] = JSON_KINDS,
    key_of: Callable[[object], Any] = json_key,
) -> bool:
    """Equal in shape and kinds; numbers by same_number(returned, expected), everything else exactly."""
    # Lists and dicts tell their size before their members: no walk begins another, so zip drops nothing.
    for (kind, ours), (kind_expected, theirs) in zip(
        _walk(returned, kinds, key_of), _walk(expected, kinds, key_of), strict=False
    ):
        if kind is None or kind != kind_expected:
            return False
        if not (same_number(ours, theirs) if kind == "number" else ours == theirs):
            return False
    return True


def same_multiset(returned: Iterable[Any], expected: Iterable[Any]) -> bool:
    """Equal members, as JSON, in any order."""
    returned, expected = list(returned), list(expected)
    if same(returned, expected):
        return True
    # Size first: sorting needs memory for what is sorted, and only the expected value's size can be trusted.
    if _size(returned) != _size(expected):
        return False
    forms, forms_expected = _sorted_forms(returned), _sorted_forms(expected)
    return forms is not None and forms == forms_expected


def _walk(value: Any, kinds: Mapping[type, str], key_of: Callable[[object], Any]) -> Iterator[tuple[str | None, Any]]:
    """From left to right: (kind, scalar), ("list", length), ("dict", length), ("dict", sorted keys), (None, no plain
    value)."""
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
            if None in members or len(members) != len(value):  # {1: "a", "1": "b"} is no JSON object
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
    """Each item's walk (kind, value, kind, value, ...), in order; None where an item equals nothing.

    Sorted rather than counted by hash: a list of multiples of 2**61 - 1, which all hash to 0, would take
    quadratic time. Two walks first differ in a kind or in two values of one kind, so any two can be ordered.
    """
    if any(kind is None or value != value for kind, value in _walk(items, JSON_KINDS, json_key)):
        return None
    if {JSON_KINDS.get(type(item)) for item in items} in ({"number"}, {"str"}):
        return sorted(items)  # without a tuple for each, in a fifth of the time and memory
    return sorted(tuple(chain.from_iterable(_walk(item, JSON_KINDS, json_key))) for item in items)
