"""Bars as a TOML file: a table for each pair of engines, such as ["vllm/transformers"]."""

import tomllib
from math import inf
from pathlib import Path

import msgspec

from sandbox.concurrency.file_lock import FileLock
from train.errors import ConfigError
from train.swarm.settings import Thresholds


def read_thresholds(path: Path) -> dict[str, Thresholds]:
    """Return the bars in a file, by the pair of engines. Raises ConfigError if they make no sense."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        found = msgspec.convert(tables, dict[str, Thresholds])
        for pair in found:
            _check(pair, tables[pair])
        return found
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} does not hold bars: {error}. Make it: curate swarm calibrate") from None


def _check(pair: str, table: dict[str, float]) -> None:
    for name, value in table.items():
        if name not in Thresholds.__struct_encode_fields__:
            raise ValueError(f'["{pair}"] has {name}, which is not a bar')
        if not value >= 0:  # beyond a bar that is not a number, nothing ever is
            raise ValueError(f'["{pair}"] has {name} = {value}, which must be 0 or more')


def add_thresholds(path: Path, pair: str, thresholds: Thresholds) -> None:
    """Write the bars of one pair of engines, and keep those of others. Raises ConfigError if that is not possible."""
    try:
        lock = FileLock(path.with_name(f".{path.name}.lock"), wait_seconds=inf, temporary=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    with lock:
        others = read_thresholds(path) if path.exists() else {}
        write_thresholds(path, {**others, pair: thresholds})


def write_thresholds(path: Path, thresholds: dict[str, Thresholds]) -> None:
    """Write the file, or replace it. Raises ConfigError if that is not possible."""
    tables = [
        "\n".join([f'["{pair}"]', *(f"{name} = {float(value)!r}" for name, value in msgspec.to_builtins(of).items())])
        for pair, of in sorted(thresholds.items())
    ]
    aside = path.with_name(path.name + ".part")
    try:
        aside.write_text("\n\n".join(tables) + "\n", encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
