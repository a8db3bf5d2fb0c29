"""Equality of plain values under Python's ==, in linear time and memory even for values of a hostile program.

Two values are equal if their canonical texts are equal. A comparison of texts calls no methods of the program's
objects, and is not vulnerable to hash collisions of numbers.
"""

import math
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

_MAX_NESTING = 250  # Python's parser accepts at most 200 levels in a literal
_NUMBERS = (int, float, bool, Fraction)


@dataclass(frozen=True, slots=True)
class ReturnedSet:
    """The members of a returned set, as a tuple: in a set, members with equal hashes would take quadratic time."""

    members: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ReturnedDict:
    """The keys and values of a returned dict."""

    items: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True, slots=True)
class OpaqueValue:
    """The type name of a returned value that is not plain data. Such a value equals nothing."""

    kind: str


class NeverEqual(Exception):
    """A value, such as NaN, that equals nothing, not even a copy of itself."""


def format_canonical_text(value: Any) -> str:
    """Return a text that is the same for equal values, and only for these. Raises NeverEqual.

    True, 1, 1.0 and 1+0j are the same number; a set is the same as a frozenset.
    """
    pieces: list[str] = []
    _append_canonical_text(value, pieces, 0)
    return "".join(pieces)


def describe(value: Any) -> str:
    """Return a short, human-readable description of a value."""
    return _VALUE_REPR.repr(value)


def _append_canonical_text(value: Any, pieces: list[str], level: int) -> None:
    if level > _MAX_NESTING:
        raise NeverEqual
    kind = type(value)
    if value is None:
        pieces.append("-")
    elif kind is str:
        pieces += (f"s{len(value)}:", value)
    elif kind is bytes:
        pieces.append(f"b{len(value)}:{value.hex()}")
    elif kind is complex:
        pieces.append(
            _format_number(value.real)
            if value.imag == 0
            else f"c{_format_number(value.real)}{_format_number(value.imag)}"
        )
    elif kind in _NUMBERS:
        pieces.append(_format_number(value))
    elif kind in (list, tuple):
        pieces.append(f"{kind.__name__}{len(value)}:")
        for item in value:
            _append_canonical_text(item, pieces, level + 1)
    elif kind in (set, frozenset):
        _append_members(value, pieces, level)
    elif kind is ReturnedSet:
        _append_members(value.members, pieces, level)
    elif kind is dict:
        _append_items(value.items(), pieces, level)
    elif kind is ReturnedDict:
        _append_items(value.items, pieces, level)
    else:
        raise NeverEqual


def _format_number(value: int | float | Fraction) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        if value != value:
            raise NeverEqual
        return f"n{value};"
    numerator, denominator = value.as_integer_ratio()
    return f"n{numerator:x};" if denominator == 1 else f"n{numerator:x}/{denominator:x};"


def _append_members(members: Iterable[Any], pieces: list[str], level: int) -> None:
    texts = sorted(_format_member(member, level) for member in members)
    if len(set(texts)) != len(texts):  # a set cannot hold equal members, so the program forged this one
        raise NeverEqual
    pieces.append(f"z{len(texts)}:")
    pieces += texts


def _append_items(items: Iterable[tuple[Any, Any]], pieces: list[str], level: int) -> None:
    pairs = [(_format_member(key, level), value) for key, value in items]
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NeverEqual
    pieces.append(f"d{len(members)}:")
    for key in sorted(members):
        pieces.append(key)
        _append_canonical_text(members[key], pieces, level + 1)


def _format_member(value: Any, level: int) -> str:
    pieces: list[str] = []
    _append_canonical_text(value, pieces, level + 1)
    return "".join(pieces)


class _ValueRepr(reprlib.Repr):
    """repr() with ReturnedSet and ReturnedDict shown as sets and dicts."""

    def repr_ReturnedSet(self, value: ReturnedSet, level: int) -> str:
        inside = self._repr_iterable(value.members, level, "{", "}", self.maxset)  # type: ignore[attr-defined]
        return str(inside) if value.members else "set()"

    def repr_ReturnedDict(self, value: ReturnedDict, level: int) -> str:
        if level <= 0:
            return "{...}"
        parts = [f"{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}" for k, v in value.items[: self.maxdict]]
        return f"{{{', '.join(parts + ['...'] * (len(value.items) > self.maxdict))}}}"

    def repr_OpaqueValue(self, value: OpaqueValue, level: int) -> str:
        return f"<a value of type {value.kind[:80]}>"


_VALUE_REPR = _ValueRepr()
_VALUE_REPR.maxstring = _VALUE_REPR.maxother = 100
