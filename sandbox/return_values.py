"""Decoder of the untrusted return values of calls. The expected value bounds the time and memory that it takes."""

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sandbox.checkers._python_values import OpaqueValue, ReturnedDict, ReturnedSet
from sandbox.checkers._values import NumberKey

# All integers in a value together may take the time of one with this number of digits. Parsing takes quadratic time.
_MAX_DIGITS = 100_000
_SMALL_BYTES = 1 << 16  # values up to this size are always decoded
# Maximum sizes in the encoding:
_BYTES_PER_CHARACTER = 12  # of a character: two escapes, for a surrogate pair
_BYTES_PER_VALUE = 400  # of a number in any notation, and of the punctuation around a value
_BYTES_PER_LITERAL = 2_000  # of a Python literal, which may be a fraction, and of the punctuation around it


def may_equal(encoded: bytes, expected: str) -> bool:
    """Return False if an encoded value certainly differs from the value of the JSON text `expected`.

    Counts brackets, braces, commas and bytes, in linear time and constant memory; decoding can take thirty times the
    memory. Equal values have the same number of members at each level, and the same strings. The encoding adds a brace
    to a tuple, and two brackets and a comma to a dict and its members (see languages.python.to_json).
    """
    if len(encoded) <= _SMALL_BYTES:
        return True
    lists, dicts, commas, members = (expected.count(mark) for mark in "[{,:")
    escaped = expected.count("\\u")  # escaped characters in strings, which the encoding need not escape
    max_counts = {
        b"[": lists + dicts + members + escaped,
        b"{": lists + dicts + escaped,
        b",": commas + members + escaped,
    }
    max_bytes = _SMALL_BYTES + _BYTES_PER_CHARACTER * len(expected) + _BYTES_PER_VALUE * (1 + lists + dicts + commas)
    return len(encoded) <= max_bytes and all(encoded.count(mark) <= count for mark, count in max_counts.items())


def may_equal_literal(encoded: bytes, expected: str) -> bool:
    """Return False if an encoded value certainly differs from the Python literal `expected`; see `may_equal`.

    The encoding adds at most a brace, two brackets and a comma for each value and each member of a dict.
    """
    if len(encoded) <= _SMALL_BYTES:
        return True
    parts = 1 + sum(map(expected.count, "[({,:"))  # values, members and containers
    escaped = expected.count("\\")  # escaped characters in strings, which the encoding need not escape
    max_counts = 3 * parts + escaped
    max_bytes = _SMALL_BYTES + _BYTES_PER_CHARACTER * len(expected) + _BYTES_PER_LITERAL * parts
    return len(encoded) <= max_bytes and all(encoded.count(mark) <= max_counts for mark in (b"[", b"{", b","))


def decode(encoded: bytes) -> Any:
    """Decode a value that languages.python.to_json encoded, for comparison with a JSON value.

    The result is a None, bool, int, float, str, list, tuple, or dict with keys of type str or NumberKey. A set becomes
    an empty frozenset, since no JSON value equals a set. Takes linear time, besides the bounded time for integers.

    Raises ValueError, TypeError or RecursionError for an invalid encoding.
    """
    return _decode_json(encoded, _make_json_container)


def decode_literal(encoded: bytes) -> Any:
    """Decode a value that languages.python.to_json encoded, for comparison with a Python literal.

    The result is a None, bool, int, float, complex, Fraction, str, bytes, list, tuple, ReturnedSet, ReturnedDict or
    OpaqueValue. Time and exceptions are as for `decode`.
    """
    return _decode_json(encoded, _make_python_container)


def _decode_json(encoded: bytes, container: Callable[[dict[str, Any]], Any]) -> Any:
    text = encoded.decode("ascii")
    if len(text) <= _MAX_DIGITS and "{" not in text:  # only lists and atoms, and few digits
        return json.loads(text)
    effort = 0

    def parse_integer(digits: str) -> int:
        nonlocal effort
        effort += len(digits) ** 2
        if effort > _MAX_DIGITS**2:
            raise ValueError(f"integers of more than {_MAX_DIGITS} digits")
        return int(digits)

    return json.loads(text, object_hook=container, parse_int=parse_integer)


def _make_json_container(tagged: dict[str, Any]) -> Any:
    ((kind, items),) = tagged.items()
    if kind == "tuple":
        return tuple(items)
    if kind == "set":
        return frozenset()
    if kind == "dict":
        members = {_encode_key(key): value for key, value in items}
        if len(members) != len(items):
            raise ValueError("dict keys that are equal in JSON")
        return members
    raise ValueError(f"unknown container {kind!r}")


def _make_python_container(tagged: dict[str, Any]) -> Any:
    ((kind, content),) = tagged.items()
    match kind, content:
        case "tuple", list():
            return tuple(content)
        case "set", list():
            return ReturnedSet(tuple(content))
        case "dict", list():
            return ReturnedDict(tuple((key, value) for key, value in content))
        case "bytes", str():
            return bytes.fromhex(content)
        case "complex", [float() as real, float() as imaginary]:
            return complex(real, imaginary)
        case "ratio", [int() as numerator, int() as denominator] if denominator > 0:
            return Fraction(numerator, denominator)
        case "other", str():
            return OpaqueValue(content)
    raise ValueError(f"unknown container {kind!r}")


def _encode_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, int | float):
        return NumberKey(json.dumps(key))
    raise TypeError("a dict key that JSON cannot express")
