"""Requests and answers as JSON: what the service and its client say to each other.

Any frozen dataclass of ours is encoded and decoded by its type hints, so that a new field needs no new code here. bytes
become base64, enums their values, tuples lists; numbers keep every digit.
"""

import base64
import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Kind = TypeVar("Kind")

_TYPE_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", NoneType: "null"}


def dumps(value: Any) -> bytes:
    """Return the JSON of a dataclass, or of anything with dataclasses inside. Raises ValueError and TypeError."""
    return _ENCODER.encode(encode(value)).encode()


def encode(value: Any) -> Any:
    """Return a dataclass, or anything with dataclasses inside, as lists, dicts, text and numbers for JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: encode(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


def loads(text: bytes) -> Any:
    """Parse JSON. Raises ValueError for anything that is not JSON, or nested too deeply to be read."""
    try:
        return _DECODER.decode(text.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def decode(kind: type[Kind], raw: Any, path: str = "") -> Kind:
    """Return an object of type `kind`: the inverse of `encode`. Raises ValueError, saying what is wrong and where."""
    try:
        value: Kind = _decode(kind, raw, path)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _decode(kind: Any, raw: Any, place: str) -> Any:
    if kind in _TYPE_NAMES:
        return _plain(kind, raw, place)
    if kind is Any:
        return raw
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return _one_of(parts, raw, place)
    if is_dataclass(kind):
        return _object(kind, raw, place)
    if origin is tuple:  # of any length, with one type of item
        return tuple(_decode(parts[0], item, f"{place}[{n}]") for n, item in enumerate(_is(list, "a list", raw, place)))
    if origin is Mapping:
        items = _is(dict, "an object", raw, place).items()
        return {key: _decode(parts[1], item, f"{place}[{key[:40]!r}]") for key, item in items}
    if kind is bytes:
        return _bytes(raw, place)
    assert issubclass(kind, Enum)
    words = [member.value for member in kind]
    if raw not in words:
        raise _wrong(f"one of {', '.join(words)}", raw, place)
    return kind(raw)


def _object(kind: Any, raw: Any, place: str) -> Any:
    known = field_types(kind)
    wanted = _is(dict, "an object", raw, place)
    inside = f"{place}." if place else ""
    if unknown := sorted(set(wanted) - set(known)):
        # Not ignored: what the field asks for would not be done. The other side may have a newer version.
        raise ValueError(f"unknown field {inside + unknown[0]!r}"[:200])
    needed = [part.name for part in fields(kind) if part.default is MISSING and part.default_factory is MISSING]
    if missing := [name for name in needed if name not in wanted]:
        raise ValueError(f"field {inside + missing[0]!r} is missing")
    values = {name: _decode(known[name], item, inside + name) for name, item in wanted.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"field {place!r}: {error}" if place else str(error)) from None


def _one_of(kinds: tuple[Any, ...], raw: Any, place: str) -> Any:
    if raw is None and NoneType in kinds:
        return None
    problems = []
    for kind in kinds:
        if kind is not NoneType:
            try:
                return _decode(kind, raw, place)
            except ValueError as error:
                problems.append(str(error))
    raise ValueError(problems[0])


def _bytes(raw: Any, place: str) -> bytes:
    try:
        return base64.b64decode(_is(str, "base64", raw, place), validate=True)
    except ValueError:
        raise _wrong("base64", raw, place) from None


def _plain(kind: Any, raw: Any, place: str) -> Any:
    if kind is float and isinstance(raw, int) and not isinstance(raw, bool):
        try:
            raw = float(raw)
        except OverflowError:
            raise _wrong("a number", "a huge one", place) from None
    if kind is int and isinstance(raw, float) and raw.is_integer():
        raw = int(raw)
    if type(raw) is not kind or (kind is float and not math.isfinite(raw)):
        raise _wrong(_TYPE_NAMES[kind], raw, place)
    return raw


def _is(kind: type[Kind], words: str, raw: Any, place: str) -> Kind:
    if not isinstance(raw, kind):
        raise _wrong(words, raw, place)
    return raw


def _wrong(wanted: str, raw: Any, place: str) -> ValueError:
    return ValueError(f"{f'field {place!r}' if place else 'this'} must be {wanted}, not {reprlib.repr(raw)}"[:200])


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields by their names."""
    known = get_type_hints(kind)
    return {part.name: known[part.name] for part in fields(kind)}
