"""Read a configuration: options of the command line replace values of the file, which replace those of a preset."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

from curate.errors import CurateError
from curate.prompt import read_prompt
from train.config.sections import Config, EngineConfig
from train.config.table import as_table, from_table
from train.engine_options import vllm_options
from train.errors import ConfigError

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PRESETS = Path(__file__).parents[1] / "presets"


def read_config(
    path: Path | None,
    changes: Sequence[str] = (),
    *,
    preset: str | None = None,
    model: str | None = None,
    dataset: str | None = None,
    prompt: Mapping[str, Any] = _NOTHING,
    engine: Mapping[str, Any] = _NOTHING,
) -> Config:
    """Return the configuration in a TOML file, in a preset, or in both.

    Of several values for a key, the last of these holds: its default, the preset, the file, the parameters `model` to
    `engine`, `changes`.

    path     the file, None for a preset alone
    changes  further values, of the form section.key=value
    preset   name of the preset; None: the one that the file names, if any
    model    value of model.path
    dataset  value of data.dataset
    prompt   further values of the section [prompt]
    engine   further values of the section [engine]

    Raises ConfigError.
    """
    from_file = {} if path is None else _read_file(path)
    named = from_file.pop("preset", None)
    if preset is not None and named not in (None, preset):
        raise ConfigError(
            f"{path} names the preset {named!r}, and --preset is {preset!r}. Leave out --preset, or delete the line "
            f"preset = {named!r} in {path}."
        )
    name = named if preset is None else preset
    table = {} if name is None else preset_table(name)
    _merge(table, from_file)
    paths = {"model": {} if model is None else {"path": model}, "data": {} if dataset is None else {"dataset": dataset}}
    options = {**paths, "prompt": prompt, "engine": engine}
    _merge(table, {section: dict(values) for section, values in options.items() if values})
    for change in changes:
        _apply(table, change)
    for section, key, option in (("model", "path", "--model"), ("data", "dataset", "--data")):
        if isinstance(values := table.get(section, {}), Mapping) and key not in values:
            raise ConfigError(f"{section}.{key} is missing. Give {option}, or a file with {key} in [{section}].")
    _read_prompt(table)
    _gather_engine_options(table)
    return from_table(table)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file. Give the path of a TOML file.") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}. Give the path of a TOML file.") from error
    table = _parse(text, str(path))
    if isinstance(table.get("reward"), str):  # short for a function of one's own and no other task's reward
        table["reward"] = {"code": 0.0, "math": 0.0, "function": table["reward"]}
    return table


def with_overrides(config: Config, changes: Sequence[str]) -> Config:
    """Return the configuration with further values, of the form section.key=value. Raises ConfigError."""
    table = as_table(config)
    for change in changes:
        _apply(table, change)
    return from_table(table)


def with_sandbox(config: Config, given: Mapping[str, Any]) -> Config:
    """Return the configuration with these options in its section [sandbox]. Raises ConfigError.

    If another backend is given, the old address and image are dropped, which belong to the old backend. If packages are
    given, the hash of the old ones is dropped.
    """
    dropped = {"address": "", "image": ""} if "backend" in given else {}
    if "packages" in given:
        dropped["packages_sha256"] = ""
    return replace(config, sandbox=replace(config.sandbox, **{**dropped, **given}))


def presets() -> list[str]:
    """Return the names of the presets."""
    return sorted(path.stem for path in _PRESETS.glob("*.toml"))


def preset_table(name: object) -> dict[str, Any]:
    """Return the contents of a preset's file. Raises ConfigError for an unknown name."""
    if name not in presets():
        raise ConfigError(f"unknown preset {name!r}; known are {', '.join(presets())}")
    return _parse((_PRESETS / f"{name}.toml").read_text(encoding="utf-8"), f"preset {name}")


def preset_header(name: str) -> list[str]:
    """Return the comment lines with which the file of a preset begins: the source of its values."""
    lines = (_PRESETS / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    return list(takewhile(lambda line: line.startswith("#"), lines))


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}") from error


def _merge(table: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Replace values of the table with those of `over`, in place and key by key."""
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _read_prompt(table: dict[str, Any]) -> None:
    """Replace the names of files in the section [prompt] with their contents, which the run keeps."""
    if isinstance(table.get("prompt"), Mapping):
        try:
            table["prompt"] = read_prompt(table["prompt"]).as_table()
        except CurateError as error:
            raise ConfigError(str(error)) from error


def _gather_engine_options(table: dict[str, Any]) -> None:
    """Move the options of vLLM that stand in the section [engine] itself to engine.options.

    Raises ConfigError for a key that neither this section nor vLLM has.
    """
    engine = table.get("engine")
    if not isinstance(engine, dict):
        return
    ours = [field.name for field in fields(EngineConfig)]
    of_vllm = vllm_options()
    for key in [key for key in engine if key not in ours]:
        if of_vllm is not None and key not in of_vllm:
            near = get_close_matches(key, [*ours, *sorted(of_vllm)], 1)
            raise ConfigError(
                f"unknown key engine.{key}.{f' Did you mean engine.{near[0]}?' if near else ''} Known are "
                f"{', '.join(f'engine.{name}' for name in ours)}, and the options of vLLM's EngineArgs."
            )
        engine.setdefault("options", {})[key] = engine.pop(key)


def _apply(table: dict[str, Any], change: str) -> None:
    """Apply one section.key=value, or stages.NUMBER.key=value, in place."""
    name, equals, text = change.partition("=")
    *sections, key = name.strip().split(".")
    if not equals or len(sections) not in (1, 2):
        raise ConfigError(f"--set {change}: give section.key=value, or stages.0.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string, so that nobody has to quote twice in a shell
    place: Any = table
    for section in sections:
        if isinstance(place, list):
            if not section.isdecimal() or int(section) >= len(place):
                raise ConfigError(f"--set {change}: the number of stages is {len(place)}, counted from 0")
            place = place[int(section)]
        else:
            place = place.setdefault(section, [{}] if section == "stages" else {})
    if not isinstance(place, dict):
        raise ConfigError(f"--set {change}: {'.'.join(sections)} has no keys of its own; give stages.0.{key}=value")
    place[key] = value
