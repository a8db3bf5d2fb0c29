"""What a call returned, as a hostile process wrote it: read within bounds that come from what was expected."""

import json
from typing import Any

from sandbox.checkers._values import NumberKey

_DIGITS = 100_000  # of all integers in a value: turning text into integers takes quadratic time
_LITTLE = 1 << 16  # bytes that are read in any case
_PER_CHARACTER = 12  # bytes of an encoded character: a surrogate pair, of which each half is an escape of six
_PER_VALUE = 400  # bytes of a number, however it is written, and of all that stands around a value


def may_equal(encoded: bytes, expected: str) -> bool:
    """Whether an encoded value may equal one whose JSON text is `expected`, by how many brackets, braces, commas and
    bytes it has. Takes linear time, and no memory: the value itself may need thirty times its text.

    Equal values have equally many members at each level, and what stands in their strings is the same. The encoding
    adds a brace to a tuple, and two brackets and a comma to a dict and its members (see languages.python.plain).
    """
    if len(encoded) <= _LITTLE:
        return True
    lists, dicts, commas, members = (expected.count(mark) for mark in "[{,:")
    escaped = expected.count("\\u")  # characters of strings, written in another way
    most = {
        b"[": lists + dicts + members + escaped,
        b"{": lists + dicts + escaped,
        b",": commas + members + escaped,
    }
    most_bytes = _LITTLE + _PER_CHARACTER * len(expected) + _PER_VALUE * (1 + lists + dicts + commas)
    return len(encoded) <= most_bytes and all(encoded.count(mark) <= count for mark, count in most.items())


def decode(encoded: bytes) -> Any:
    """A returned value from its encoding (see languages.python.plain).

    Gives None, bool, int, float, str, list, tuple, dict (keys are str or NumberKey) and, for a set, an empty
    frozenset: no JSON value equals a set. Takes linear time but for integers, whose digits are bounded. Raises
    ValueError, TypeError or RecursionError for anything else.
    """
    effort = 0

    def integer(digits: str) -> int:
        nonlocal effort
        effort += len(digits) ** 2
        if effort > _DIGITS**2:
            raise ValueError(f"integers of more than {_DIGITS} digits")
        return int(digits)

    return json.loads(encoded.decode("ascii"), object_hook=_container, parse_int=integer)


def _container(tagged: dict[str, Any]) -> Any:
    ((kind, items),) = tagged.items()
    if kind == "tuple":
        return tuple(items)
    if kind == "set":
        return frozenset()
    if kind == "dict":
        members = {_key(key): value for key, value in items}
        if len(members) != len(items):
            raise ValueError("keys that are the same in JSON")
        return members
    raise ValueError(f"unknown container {kind!r}")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, int | float):
        return NumberKey(json.dumps(key))
    raise TypeError("a key that JSON does not have")
