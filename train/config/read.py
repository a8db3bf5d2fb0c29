"""Conversion of TOML, presets and command-line values to a Config, and back to a table.

msgspec converts values to the types of sections.py; this module rejects unknown keys and rewrites msgspec's errors.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from itertools import takewhile
from math import inf
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from curate.errors import CurateError
from curate.prompt import read_prompt
from train.config.sections import Config, EngineConfig
from train.errors import ConfigError

_MAX_INTEGER = 2**63 - 1  # largest integer that TOML, safetensors and random generators accept
_MSGSPEC_ERROR = re.compile(r"Expected `(.*?)`(?: ([<>]=?|of length) ([^,]+))?(?:, got .*)? - at `\$\.(.*)`")
_BOUNDS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}


def as_table(value: Any) -> Any:
    """Convert a section or configuration to a table for TOML or JSON, which omits None."""
    if is_dataclass(value) and not isinstance(value, type):
        items = ((field.name, as_table(getattr(value, field.name))) for field in fields(value))
        return {name: item for name, item in items if item is not None}
    if isinstance(value, Mapping):
        return dict(value)
    return [as_table(item) for item in value] if isinstance(value, tuple) else value


def from_table(table: Mapping[str, Any]) -> Config:
    """Convert a table, such as a result of `as_table`, to a Config. Raises ConfigError for an invalid key or value."""
    checked = _normalize(Config, table, "")
    try:
        return msgspec.convert(checked, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(_rewrite_msgspec_error(str(error), checked)) from error


def _normalize(kind: Any, value: Any, name: str) -> Any:
    """Convert "none" to None. Raises ConfigError for invalid values that msgspec accepts or describes unclearly."""
    if is_dataclass(kind):
        return _normalize_section(kind, value, name)
    if get_origin(kind) is tuple and isinstance(value, list):
        return [_normalize(get_args(kind)[0], item, f"{name}.{node}") for node, item in enumerate(value)]
    if NoneType in get_args(kind):
        return None if value in (None, "none") else _normalize(get_args(kind)[0], value, name)
    if get_origin(kind) is Literal and value not in get_args(kind):
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, get_args(kind)))}, not {value!r}")
    if kind in (int, float) and type(value) in (int, float) and not 0 <= value < inf:
        raise ConfigError(f"{name} must be a finite number >= 0, not {value}")
    if kind is int and type(value) is int and value > _MAX_INTEGER:
        raise ConfigError(f"{name} must be at most {_MAX_INTEGER}, not {value}")
    return value


def _normalize_section(kind: Any, table: Any, name: str) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{name} must be a section, not {table!r}: write [{name}] and its keys on the lines below")
    prefix = f"{name}." if name else ""
    types = get_type_hints(kind)
    for unknown in sorted(table.keys() - types.keys()):
        subject = f"key {prefix}{unknown}" if name else f"section {unknown!r}"
        raise ConfigError(f"unknown {subject}; known are {', '.join(prefix + known for known in types)}")
    for field in fields(kind):
        if field.name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{prefix}{field.name} is missing and has no default")
    return {key: _normalize(types[key], value, prefix + key) for key, value in table.items()}


def _rewrite_msgspec_error(message: str, table: Any) -> str:
    match = _MSGSPEC_ERROR.fullmatch(message)
    if match is None:
        return message
    kind, relation, bound, path = match.groups()
    keys = re.findall(r"[^.\[\]]+", path)
    value = table
    for key in keys:
        value = value[int(key) if isinstance(value, list) else key]
    if kind == "array":
        allowed = "a list" + (f" of {bound} values" if bound else "")
    elif relation:
        allowed = f"{_BOUNDS[relation]} {float(bound):g}"
    else:
        allowed = "a table" if kind == "object" else f"of type {kind}".replace("| null", 'or "none"')
    return f"{'.'.join(keys)} must be {allowed}, not {value!r}"


_EMPTY: Mapping[str, Any] = MappingProxyType({})
_PRESETS = Path(__file__).with_name("presets")


def read_config(
    path: Path | None,
    changes: Sequence[str] = (),
    *,
    preset: str | None = None,
    model: str | None = None,
    dataset: str | None = None,
    prompt: Mapping[str, Any] = _EMPTY,
    engine: Mapping[str, Any] = _EMPTY,
    machine: Sequence[str] = (),
) -> Config:
    """Read a configuration from a TOML file, a preset, or both.

    From the lowest priority to the highest: defaults, preset, `machine`, file, the parameters `model` to `engine`,
    and `changes`.

    changes  values of the form section.key=value
    preset   name of the preset; None: the preset that the file names, if any
    machine  machine-dependent values of the form section.key=value

    Raises ConfigError.
    """
    from_file = {} if path is None else _read_file(path)
    named = from_file.pop("preset", None)
    if preset is not None and named not in (None, preset):
        raise ConfigError(
            f"{path} names the preset {named!r}, but --preset is {preset!r}. Omit --preset, or delete the line "
            f"preset = {named!r} in {path}."
        )
    name = named if preset is None else preset
    table = {} if name is None else read_preset(name)
    paths = {"model": {} if model is None else {"path": model}, "data": {} if dataset is None else {"dataset": dataset}}
    options = {**paths, "prompt": prompt, "engine": engine}
    for change in machine:
        _apply_change(table, change)
    _merge(table, from_file)
    _merge(table, {section: dict(values) for section, values in options.items() if values})
    for change in changes:
        _apply_change(table, change)
    for section, key, option in (("model", "path", "--model"), ("data", "dataset", "--data")):
        if isinstance(values := table.get(section, {}), Mapping) and key not in values:
            raise ConfigError(f"{section}.{key} is missing. Give {option}, or a file with {key} in [{section}].")
    if isinstance(table.get("prompt"), Mapping):  # store the contents of prompt files in the run, not their names
        try:
            table["prompt"] = read_prompt(table["prompt"]).as_table()
        except CurateError as error:
            raise ConfigError(str(error)) from error
    if isinstance(engine_table := table.get("engine"), dict):  # [engine] accepts vLLM options besides its own keys
        for key in [key for key in engine_table if key not in get_type_hints(EngineConfig)]:
            engine_table.setdefault("options", {})[key] = engine_table.pop(key)
    return from_table(table)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file. Give the path of a TOML file.") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}. Give the path of a TOML file.") from error
    table = _parse(text, str(path))
    if isinstance(table.get("reward"), str):  # reward = "module:function" replaces all other rewards
        table["reward"] = {"code": 0.0, "math": 0.0, "function": table["reward"]}
    return table


def with_overrides(config: Config, changes: Sequence[str]) -> Config:
    """Override values, given as section.key=value. Raises ConfigError."""
    table = as_table(config)
    for change in changes:
        _apply_change(table, change)
    return from_table(table)


def with_sandbox(config: Config, overrides: Mapping[str, Any]) -> Config:
    """Override values of the section [sandbox]. Raises ConfigError.

    A new backend resets address and image, and new packages reset packages_sha256.
    """
    resets = {"address": "", "image": ""} if "backend" in overrides else {}
    if "packages" in overrides:
        resets["packages_sha256"] = ""
    return replace(config, sandbox=replace(config.sandbox, **{**resets, **overrides}))


def list_presets() -> list[str]:
    return sorted(path.stem for path in _PRESETS.glob("*.toml"))


def read_preset(name: object) -> dict[str, Any]:
    """Read a preset as a table. Raises ConfigError for an unknown name."""
    if name not in list_presets():
        raise ConfigError(f"unknown preset {name!r}; known are {', '.join(list_presets())}")
    return _parse((_PRESETS / f"{name}.toml").read_text(encoding="utf-8"), f"preset {name}")


def read_preset_header(name: str) -> list[str]:
    """Return the comment lines at the top of a preset's file, which name the source of its values."""
    lines = (_PRESETS / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    return list(takewhile(lambda line: line.startswith("#"), lines))


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}") from error


def _merge(table: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    for key, value in overrides.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _apply_change(table: dict[str, Any], change: str) -> None:
    name, equals, text = change.partition("=")
    *sections, key = name.strip().split(".")
    if not equals or len(sections) not in (1, 2):
        raise ConfigError(f"--set {change}: give section.key=value, or stages.0.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # text without TOML quotes, because shells remove them
    node: Any = table
    for section in sections:
        if isinstance(node, list):
            if not section.isdecimal() or int(section) >= len(node):
                raise ConfigError(f"--set {change}: the number of stages is {len(node)}; the first is stage 0")
            node = node[int(section)]
        else:
            node = node.setdefault(section, [{}] if section == "stages" else {})
    if not isinstance(node, dict):
        raise ConfigError(f"--set {change}: {'.'.join(sections)} is an array of tables; give stages.0.{key}=value")
    node[key] = value
