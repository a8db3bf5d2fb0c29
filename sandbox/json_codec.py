"""JSON for requests, responses and judge records: types to JSON, JSON to types, and types to JSON Schema.

The types are frozen dataclasses and msgspec Structs, whose type hints msgspec uses; a new field needs no code here.
bytes become base64, enums their values, tuples lists.
"""

import difflib
import json
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, reduce
from inspect import cleandoc
from math import isfinite
from operator import or_
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

Kind = TypeVar("Kind")

_REFUSAL = re.compile(r"(.*?)(?: - at `\$\.?([\w.\[\]]*)`)?", re.DOTALL)  # only names of ours and indexes in a path
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `(.*?)`(.*?)(?:, got .*)?")
_TYPE_NAMES = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "bytes": "base64",
}
_HUGE = 10**400  # replaces a number that overflows a float, so that only its field is rejected, not the whole JSON
_EXPECTED_BY_REFUSAL = {"Number out of range": "a number in range", "Invalid base64 encoded string": "base64"}


class UnknownField(ValueError):
    """An object has a field that its type lacks, and would otherwise be ignored."""

    code = "ValueError"  # clients can tell it only by its message


def dumps(value: Any) -> bytes:
    """Encode a value, or a container of values, as JSON. Raises ValueError and TypeError."""
    return _ENCODER.encode(encode(value)).encode()


def encode(value: Any) -> Any:
    """Convert a value, or a container of values, to sequences, dicts, text and numbers for JSON."""
    return msgspec.to_builtins(value)


def loads(text: bytes | str) -> Any:
    """Parse JSON; a number without a fraction is an int, however it is written.

    Raises ValueError for invalid or too deeply nested JSON.
    """
    try:
        return _FAST_DECODER.decode(text)
    except (ValueError, RecursionError):
        pass  # the standard library accepts lone surrogates, and reports the position of an error
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        return _HUGE if number > 0 else -_HUGE
    return int(number) if number.is_integer() else number


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_no_constant)
_FAST_DECODER = msgspec.json.Decoder(float_hook=_number)


def decode(kind: type[Kind], raw: Any) -> Kind:
    """Convert a result of `loads` to type `kind`. Raises ValueError, with the reason and the path.

    Raises UnknownField, a ValueError, for unknown fields of dataclasses, and of Structs that forbid them.
    """
    closed = _close(kind)
    try:
        value: Kind = msgspec.convert(raw, closed)
        return value if closed is kind else msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        refusal = str(error)
        if refusal.startswith(("Object contains unknown field", "Invalid enum value")):
            _check_words(closed, raw, "")
        raise ValueError(_explain(refusal, raw)) from None


def schemas(kinds: Iterable[type], ref_template: str) -> dict[str, Any]:
    """Return the JSON Schemas of types, and of all types inside them, by name. ref_template: address of {name}."""
    _, found = msgspec.json.schema_components(map(_close, kinds), ref_template=ref_template)
    return {name: {**schema, "description": cleandoc(schema["description"])} for name, schema in found.items()}


def _close(hint: Any) -> Any:
    """Return a type hint in which Structs that forbid unknown fields replace dataclasses, which msgspec leaves open."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _closed_struct(hint)
    if not get_args(hint) or get_origin(hint) is Literal:
        return hint
    parts = tuple(map(_close, get_args(hint)))
    return reduce(or_, parts) if get_origin(hint) in (Union, UnionType) else get_origin(hint)[parts]


@cache
def _closed_struct(kind: type) -> type[msgspec.Struct]:
    hints = get_type_hints(kind)
    entries: list[Any] = []
    for entry in fields(kind):
        if entry.default_factory is not MISSING:
            default = msgspec.field(default_factory=entry.default_factory)
        else:
            default = msgspec.NODEFAULT if entry.default is MISSING else entry.default
        entries.append((entry.name, _close(hints[entry.name]), default))
    namespace = {"__doc__": kind.__doc__}
    return msgspec.defstruct(kind.__name__, entries, namespace=namespace, kw_only=True, forbid_unknown_fields=True)


def _check_words(kind: Any, raw: Any, place: str) -> None:
    """Raise ValueError for the first unknown field, or the first text that is not in its enum."""
    if get_origin(kind) is tuple and isinstance(raw, list):
        for index, value in enumerate(raw):
            _check_words(get_args(kind)[0], value, f"{place}[{index}]")
    elif get_origin(kind) is Literal or issubclass(kind, Enum):
        words = get_args(kind) or [member.value for member in kind]
        if raw is not None and raw not in words:
            raise ValueError(_wrong(f"one of {', '.join(words)}", raw, place))
    elif isinstance(raw, dict):
        hints, kinds = _field_types(kind)
        for name, value in raw.items():
            if name not in hints and kind.__struct_config__.forbid_unknown_fields:
                raise UnknownField(_unknown_field(name, f"{place}.{name}".lstrip("."), hints))
            if name in kinds:
                _check_words(kinds[name], value, f"{place}.{name}".lstrip("."))


@cache
def _field_types(kind: type[msgspec.Struct]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the types of the fields, and the parts of them that _check_words looks into, by name."""
    hints = get_type_hints(kind)
    parts = {name: _part_with_words(hint) for name, hint in hints.items()}
    return hints, {name: part for name, part in parts.items() if part is not None}


def _part_with_words(hint: Any) -> Any:
    for part in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        inner = get_args(part)[0] if get_origin(part) is tuple else part
        if get_origin(inner) is Literal or (isinstance(inner, type) and issubclass(inner, msgspec.Struct | Enum)):
            return part
    return None


def _unknown_field(name: str, place: str, hints: Mapping[str, Any]) -> str:
    known = [field for field, hint in hints.items() if Any not in get_args(hint)]  # fields of any type are ignored
    nearest = difflib.get_close_matches(name[:80], known, n=1)
    question = f"Did you mean {nearest[0]!r}? " if nearest else ""
    own = " Put fields of your own under 'metadata', which is ignored." if "metadata" in hints else ""
    return f"unknown field {place[:80]!r}. {question}The fields are {', '.join(known)}.{own}"


def _explain(refusal: str, raw: Any) -> str:
    """Rephrase a message of msgspec in terms of JSON, with the offending value."""
    problem, place = _REFUSAL.fullmatch(refusal).groups(default="")  # type: ignore[union-attr]  # it matches anything
    if missing := _MISSING.fullmatch(problem):
        return f"field {f'{place}.{missing[1]}'.lstrip('.')!r} is missing"
    expected = _EXPECTED_BY_REFUSAL.get(problem)
    if typed := _EXPECTED.fullmatch(problem):
        expected = " or ".join(_TYPE_NAMES.get(word, word) for word in typed[1].split(" | ")) + typed[2]
    if expected is None:
        return f"field {place!r}: {problem}" if place else problem
    for key in re.findall(r"\w+", place):
        raw = raw[int(key) if isinstance(raw, list) else key]
    return _wrong(expected, raw, place)


def _wrong(expected: str, raw: Any, place: str) -> str:
    return f"{f'field {place!r}' if place else 'this'} must be {expected}, not {reprlib.repr(raw)}"[:200]
