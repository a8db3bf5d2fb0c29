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

    where: the path of the record
    field: the first unknown field
    known: the fields of the record's type
    """

    def __init__(self, where: str, unknown: Sequence[str], known: Iterable[str]) -> None:
        super().__init__(f"{where}: unknown field {', '.join(unknown)}")
        self.where, self.field, self.known = where, unknown[0], list(known)


def omit_if_default(default: Any, *, key: str = "") -> Any:
    """Declare a field that the JSON omits if it has its immutable default. key: key in the JSON; empty: its name"""
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
    record: Record = _Reader(ignore_unknown).read(kind, data, kind.__name__)
    return record


@cache
def _get_hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@dataclass(frozen=True, slots=True)
class _Reader:
    """A reader of values by type. Error messages contain `where`, the path of a value in the record."""

    ignore_unknown: bool

    def read(self, kind: Any, data: Any, where: str) -> Any:
        if kind is Any:
            return data
        origin = get_origin(kind)
        if origin in (Union, UnionType):
            return self._read_union(get_args(kind), data, where)
        if origin in (tuple, list):
            return self._read_sequence(origin, get_args(kind), data, where)
        if origin is not None and issubclass(origin, Mapping):
            _expect(data, dict, where)
            return {key: self.read(get_args(kind)[1], item, f"{where}.{key}") for key, item in data.items()}
        if is_dataclass(kind):
            return self._read_record(kind, data, where)
        if issubclass(kind, Enum):
            try:
                return kind(data)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
        if kind is float and isinstance(data, int) and not isinstance(data, bool):
            return float(data)
        _expect(data, kind, where)
        return data

    def _read_record(self, kind: Any, data: Any, where: str) -> Any:
        _expect(data, dict, where)
        hints = _get_hints(kind)
        known = {_get_key(entry): entry for entry in fields(kind)}
        unknown = [key for key in data if key not in known]
        if unknown and not self.ignore_unknown:
            raise UnknownFieldError(where, unknown, known)
        missing = [
            name
            for name, entry in known.items()
            if name not in data and entry.default is MISSING and entry.default_factory is MISSING
        ]
        if missing:
            raise ValueError(f"{where}: the field {', '.join(missing)} is missing")
        return kind(
            **{
                entry.name: self.read(hints[entry.name], data[key], f"{where}.{key}")
                for key, entry in known.items()
                if key in data
            },
        )

    def _read_sequence(self, origin: Any, kinds: tuple[Any, ...], data: Any, where: str) -> Any:
        _expect(data, list, where)
        if origin is list or (len(kinds) == 2 and kinds[1] is Ellipsis):
            return origin(self.read(kinds[0], item, f"{where}[{index}]") for index, item in enumerate(data))
        if len(kinds) != len(data):
            raise ValueError(f"{where}: expected {len(kinds)} values, not {len(data)}")
        pairs = zip(kinds, data, strict=True)
        return tuple(self.read(kind, item, f"{where}[{index}]") for index, (kind, item) in enumerate(pairs))

    def _read_union(self, kinds: tuple[Any, ...], data: Any, where: str) -> Any:
        if data is None and NoneType in kinds:
            return None
        others = [kind for kind in kinds if kind is not NoneType]
        if len(others) == 1:
            return self.read(others[0], data, where)
        errors = []
        for kind in others:
            try:
                return self.read(kind, data, where)
            except ValueError as error:
                errors.append(str(error))
        raise ValueError("; or ".join(errors))


def _expect(data: Any, kind: type, where: str) -> None:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"{where}: expected {kind.__name__}, not {type(data).__name__}")
