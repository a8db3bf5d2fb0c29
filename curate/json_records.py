"""JSON encoding of dataclasses.

A record is a frozen dataclass. Its fields may be numbers, text, booleans, None, enums with JSON values, other records,
tuples, lists and mappings from text to any of these. Fields missing from the JSON take their defaults, so newer code
can read older files. Unknown fields raise an error unless the caller ignores them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
_OMITTED = "omitted from the JSON where it has its default"
_KEY = "key in the JSON"


class UnknownFieldError(ValueError):
    """An unknown field in a record.

    path: path of the record, such as Recipe.build
    field: the first unknown field
    valid_fields: the fields of the record's type
    """

    def __init__(self, path: str, unknown: Sequence[str], valid_fields: Iterable[str]) -> None:
        super().__init__(f"{path}: unknown field {', '.join(unknown)}")
        self.path, self.field, self.valid_fields = path, unknown[0], list(valid_fields)


def omit_if_default(default: Any, *, key: str = "") -> Any:
    """Declare a field that the JSON omits if it has its default. key: key in the JSON; empty for the field's name"""
    return field(default=default, metadata={_OMITTED: True, **({_KEY: key} if key else {})})


def json_key(key: str) -> Mapping[str, str]:
    """Return the metadata of a field whose key in the JSON differs from its name."""
    return {_KEY: key}


def _get_key(entry: Field[Any]) -> str:
    key: str = entry.metadata.get(_KEY, entry.name)
    return key


def to_json(value: Any) -> Any:
    """Convert a record, or any value of a field, to values that `json.dumps` accepts."""
    if is_dataclass(value) and not isinstance(value, type):
        values = {entry: getattr(value, entry.name) for entry in fields(value)}
        return {
            _get_key(entry): to_json(field_value)
            for entry, field_value in values.items()
            if not (_OMITTED in entry.metadata and field_value == entry.default)
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def from_json(kind: type[Record], data: Any, *, ignore_unknown: bool = False) -> Record:
    """Read a record of type `kind` from a value that `json.loads` returned.

    ignore_unknown: ignore unknown fields, for files of other versions, rather than raise UnknownFieldError

    Raises ValueError for data of another shape; the message names the field.
    """
    record: Record = _Decoder(ignore_unknown).decode(kind, data, kind.__name__)
    return record


@cache
def _get_hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@dataclass(frozen=True, slots=True)
class _Decoder:
    """A decoder of values by type. Error messages contain `path`, the path of a value in the record."""

    ignore_unknown: bool

    def decode(self, target_type: Any, value: Any, path: str) -> Any:
        if target_type is Any:
            return value
        origin = get_origin(target_type)
        if origin in (Union, UnionType):
            return self._decode_union(get_args(target_type), value, path)
        if origin in (tuple, list):
            return self._decode_sequence(origin, get_args(target_type), value, path)
        if origin is not None and issubclass(origin, Mapping):
            _expect(value, dict, path)
            return {key: self.decode(get_args(target_type)[1], item, f"{path}.{key}") for key, item in value.items()}
        if is_dataclass(target_type):
            return self._decode_record(target_type, value, path)
        if issubclass(target_type, Enum):
            try:
                return target_type(value)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        if target_type is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        _expect(value, target_type, path)
        return value

    def _decode_record(self, target_type: Any, value: Any, path: str) -> Any:
        _expect(value, dict, path)
        hints = _get_hints(target_type)
        known = {_get_key(entry): entry for entry in fields(target_type)}
        unknown = [key for key in value if key not in known]
        if unknown and not self.ignore_unknown:
            raise UnknownFieldError(path, unknown, known)
        missing = [
            name
            for name, entry in known.items()
            if name not in value and entry.default is MISSING and entry.default_factory is MISSING
        ]
        if missing:
            raise ValueError(f"{path}: the field {', '.join(missing)} is missing")
        return target_type(
            **{
                entry.name: self.decode(hints[entry.name], value[key], f"{path}.{key}")
                for key, entry in known.items()
                if key in value
            },
        )

    def _decode_sequence(self, origin: Any, target_types: tuple[Any, ...], value: Any, path: str) -> Any:
        _expect(value, list, path)
        if origin is list or (len(target_types) == 2 and target_types[1] is Ellipsis):
            return origin(self.decode(target_types[0], item, f"{path}[{index}]") for index, item in enumerate(value))
        if len(target_types) != len(value):
            raise ValueError(f"{path}: expected {len(target_types)} values, not {len(value)}")
        pairs = zip(target_types, value, strict=True)
        return tuple(
            self.decode(target_type, item, f"{path}[{index}]") for index, (target_type, item) in enumerate(pairs)
        )

    def _decode_union(self, target_types: tuple[Any, ...], value: Any, path: str) -> Any:
        if value is None and NoneType in target_types:
            return None
        others = [target_type for target_type in target_types if target_type is not NoneType]
        if len(others) == 1:
            return self.decode(others[0], value, path)
        errors = []
        for target_type in others:
            try:
                return self.decode(target_type, value, path)
            except ValueError as error:
                errors.append(str(error))
        raise ValueError("; or ".join(errors))


def _expect(value: Any, target_type: type, path: str) -> None:
    if not isinstance(value, target_type) or (isinstance(value, bool) and target_type is not bool):
        raise ValueError(f"{path}: expected {target_type.__name__}, not {type(value).__name__}")
