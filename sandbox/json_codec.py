"""JSON encoding, decoding and schemas of requests, responses and judge records.

The types are frozen dataclasses and msgspec Structs, and their type hints determine the JSON. bytes become base64,
enums their values, tuples lists.
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

# A message of msgspec, and the path in it, which consists of field names and indices.
_MESSAGE_AND_PATH = re.compile(r"(.*?)(?: - at `\$\.?([\w.\[\]]*)`)?", re.DOTALL)
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
_HUGE = 10**400  # stands for a number that overflows a float, so that the error names its field
_EXPECTED_BY_MESSAGE = {"Number out of range": "a number in range", "Invalid base64 encoded string": "base64"}


class UnknownField(ValueError):
    """An object has a field that its type lacks."""

    code = "ValueError"  # responses of the service do not distinguish it from other ValueErrors


def dumps(value: Any) -> bytes:
    """Encode a value, or a container of values, as JSON. Raises ValueError and TypeError."""
    return _ENCODER.encode(encode(value)).encode()


def encode(value: Any) -> Any:
    """Convert a value, or a container of values, to plain JSON types."""
    return msgspec.to_builtins(value)


def loads(text: bytes | str) -> Any:
    """Parse JSON. A number without a fractional part becomes an int, even 1.0 or 1e3.

    Raises ValueError for invalid or too deeply nested JSON.
    """
    try:
        return _FAST_DECODER.decode(text)
    except (ValueError, RecursionError):
        pass  # unlike msgspec, the standard library accepts lone surrogates, and reports the position of an error
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _parse_number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        return _HUGE if number > 0 else -_HUGE
    return int(number) if number.is_integer() else number


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_float=_parse_number, parse_constant=_reject_constant)
_FAST_DECODER = msgspec.json.Decoder(float_hook=_parse_number)


def decode(kind: type[Kind], raw: Any) -> Kind:
    """Convert a result of `loads` to type `kind`. Raises ValueError, with the reason and the path.

    Raises UnknownField, a ValueError, for unknown fields of dataclasses, and of Structs that forbid them.
    """
    closed = _forbid_unknown_fields(kind)
    try:
        value: Kind = msgspec.convert(raw, closed)
        return value if closed is kind else msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        if message.startswith(("Object contains unknown field", "Invalid enum value")):
            _check_names(closed, raw, "")
        raise ValueError(_explain(message, raw)) from None


def make_schemas(kinds: Iterable[type], ref_template: str) -> dict[str, Any]:
    """Return the JSON Schemas of types, and of all types in them: name -> schema.

    ref_template   format of a $ref, with the placeholder {name}
    """
    _, found = msgspec.json.schema_components(map(_forbid_unknown_fields, kinds), ref_template=ref_template)
    return {name: {**schema, "description": cleandoc(schema["description"])} for name, schema in found.items()}


def _forbid_unknown_fields(hint: Any) -> Any:
    """Replace the dataclasses in a type hint by Structs that forbid unknown fields, which msgspec ignores otherwise."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _make_closed_struct(hint)
    if not get_args(hint) or get_origin(hint) is Literal:
        return hint
    parts = tuple(map(_forbid_unknown_fields, get_args(hint)))
    return reduce(or_, parts) if get_origin(hint) in (Union, UnionType) else get_origin(hint)[parts]


@cache
def _make_closed_struct(kind: type) -> type[msgspec.Struct]:
    hints = get_type_hints(kind)
    entries: list[Any] = []
    for entry in fields(kind):
        if entry.default_factory is not MISSING:
            default = msgspec.field(default_factory=entry.default_factory)
        else:
            default = msgspec.NODEFAULT if entry.default is MISSING else entry.default
        entries.append((entry.name, _forbid_unknown_fields(hints[entry.name]), default))
    namespace = {"__doc__": kind.__doc__}
    return msgspec.defstruct(kind.__name__, entries, namespace=namespace, kw_only=True, forbid_unknown_fields=True)


def _check_names(kind: Any, raw: Any, path: str) -> None:
    """Raise ValueError for the first unknown field, or the first value that is not in its enum."""
    if get_origin(kind) is tuple and isinstance(raw, list):
        for index, value in enumerate(raw):
            _check_names(get_args(kind)[0], value, f"{path}[{index}]")
    elif get_origin(kind) is Literal or issubclass(kind, Enum):
        names = get_args(kind) or [member.value for member in kind]
        if raw is not None and raw not in names:
            raise ValueError(_describe_mismatch(f"one of {', '.join(names)}", raw, path))
    elif isinstance(raw, dict):
        hints, kinds = _list_field_types(kind)
        for name, value in raw.items():
            if name not in hints and kind.__struct_config__.forbid_unknown_fields:
                raise UnknownField(_describe_unknown_field(name, f"{path}.{name}".lstrip("."), hints))
            if name in kinds:
                _check_names(kinds[name], value, f"{path}.{name}".lstrip("."))


@cache
def _list_field_types(kind: type[msgspec.Struct]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the type of each field, and of each field that _check_names checks the part to check, by name."""
    hints = get_type_hints(kind)
    parts = {name: _find_checked_part(hint) for name, hint in hints.items()}
    return hints, {name: part for name, part in parts.items() if part is not None}


def _find_checked_part(hint: Any) -> Any:
    for part in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        inner = get_args(part)[0] if get_origin(part) is tuple else part
        if get_origin(inner) is Literal or (isinstance(inner, type) and issubclass(inner, msgspec.Struct | Enum)):
            return part
    return None


def _describe_unknown_field(name: str, path: str, hints: Mapping[str, Any]) -> str:
    field_names = [field for field, hint in hints.items() if Any not in get_args(hint)]  # ignored fields have type Any
    nearest = difflib.get_close_matches(name[:80], field_names, n=1)
    suggestion = f"Did you mean {nearest[0]!r}? " if nearest else ""
    metadata_hint = " Put fields of your own under 'metadata', which is ignored." if "metadata" in hints else ""
    return f"unknown field {path[:80]!r}. {suggestion}The fields are {', '.join(field_names)}.{metadata_hint}"


def _explain(message: str, raw: Any) -> str:
    """Rephrase a message of msgspec in terms of JSON, and add the invalid value."""
    problem, path = _MESSAGE_AND_PATH.fullmatch(message).groups(default="")  # type: ignore[union-attr]  # it matches anything
    if missing := _MISSING.fullmatch(problem):
        return f"field {f'{path}.{missing[1]}'.lstrip('.')!r} is missing"
    expected = _EXPECTED_BY_MESSAGE.get(problem)
    if typed := _EXPECTED.fullmatch(problem):
        expected = " or ".join(_TYPE_NAMES.get(word, word) for word in typed[1].split(" | ")) + typed[2]
    if expected is None:
        return f"field {path!r}: {problem}" if path else problem
    for key in re.findall(r"\w+", path):
        raw = raw[int(key) if isinstance(raw, list) else key]
    return _describe_mismatch(expected, raw, path)


def _describe_mismatch(expected: str, raw: Any, path: str) -> str:
    return f"{f'field {path!r}' if path else 'this'} must be {expected}, not {reprlib.repr(raw)}"[:200]
