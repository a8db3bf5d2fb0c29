"""Convert a configuration to the plain dictionaries, lists and values of TOML and JSON, and back."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from math import inf
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from train.config.sections import Config
from train.errors import ConfigError

_MOVED = {"reward.sandbox": "sandbox.backend and sandbox.address", "reward.workers": "sandbox.workers"}

_MOST = 2**63 - 1  # what TOML, files of tensors and random generators know as a whole number


def as_table(value: Any) -> Any:
    """Return a section or a whole configuration as dictionaries, lists and values; keys that are None are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        items = ((field.name, as_table(getattr(value, field.name))) for field in fields(value))
        return {name: item for name, item in items if item is not None}
    if isinstance(value, Mapping):
        return dict(value)
    return [as_table(item) for item in value] if isinstance(value, tuple) else value


def from_table(table: Mapping[str, Any]) -> Config:
    """Return the configuration in a table as as_table returns it. Raises ConfigError, which names the wrong key."""
    config: Config = _section(Config, table, "")
    return config


def _section(kind: Any, table: Any, name: str) -> Any:
    """Convert a table to a section of this type."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{name} must be a section, not {table!r}: write [{name}] and its keys below")
    prefix = f"{name}." if name else ""
    types = get_type_hints(kind)
    for moved in sorted(prefix + key for key in table.keys() - types.keys() if prefix + key in _MOVED):
        raise ConfigError(f"unknown key {moved}: it is now {_MOVED[moved]}")
    for unknown in sorted(table.keys() - types.keys()):
        subject = f"key {prefix}{unknown}" if name else f"section {unknown!r}"
        raise ConfigError(f"unknown {subject}; known are {', '.join(prefix + known for known in types)}")
    for field in fields(kind):
        if field.name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{prefix}{field.name} is missing; it has no default")
    return kind(**{key: _value(types[key], value, prefix + key) for key, value in table.items()})


def _value(kind: Any, value: Any, name: str) -> Any:
    """Convert a value of TOML to the type of a field; `name` is the full name of its key."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _section(kind, value, name)
    if origin is Literal:
        if value not in inner:
            raise ConfigError(f"{name} must be one of {', '.join(map(repr, inner))}, not {value!r}")
        return value
    if origin in (Union, UnionType):  # a union of a type and None, for which TOML has no value
        return None if value is None or value == "none" else _value(inner[0], value, name)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name} must be a table, not {value!r}")
        return dict(value)
    if origin is tuple:
        return _tuple(inner, value, name)
    return _scalar(kind, value, name)


def _tuple(inner: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    any_length = inner[-1] is Ellipsis
    if not isinstance(value, list) or not (any_length or len(value) == len(inner)):
        raise ConfigError(f"{name} must be a list{'' if any_length else f' of {len(inner)} values'}, not {value!r}")
    kinds = [inner[0]] * len(value) if any_length else inner
    return tuple(
        _value(kind, item, f"{name}.{place}") for place, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _scalar(kind: Any, value: Any, name: str) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:  # isinstance would accept true as an integer
        raise ConfigError(f"{name} must be of type {kind.__name__}, not {value!r}")
    if kind in (int, float) and not 0 <= value < inf:  # nan is not finite either
        raise ConfigError(f"{name} must be a finite number >= 0, not {value}")
    if kind is int and value > _MOST:
        raise ConfigError(f"{name} must be at most {_MOST}, not {value}")
    return value
