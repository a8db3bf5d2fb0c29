"""The folder of a run: one run in it, and one process at work on it.

RUN/config.json      the whole configuration, defaults included
RUN/metrics.jsonl    figures of each step; samples.jsonl: some completions; timeline.jsonl: who worked when
RUN/checkpoints/     what --resume continues from
RUN/model/           the trained model, with its card
"""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from train.config import Config, as_table, from_table
from train.errors import ConfigError

CONFIG = "config.json"
# What may differ when a run is resumed, because the steps that were made do not depend on it.
_FREE = (
    "run",
    "evaluation",
    "engine",
    "reward.workers",
    "reward.sandbox",
    "most",
    "rollout.max_seconds",
    "optimizer.row_tokens",
)
_BOUND = ("run.seed",)  # which decides the order of the prompts


@contextmanager
def prepared(folder: Path, config: Config, *, resume: bool = False, overwrite: bool = False) -> Iterator[None]:
    """Make the folder, or take up the run in it, and hold it. With resume, a run that has not begun begins.

    Raises ConfigError for a folder that holds something else, or a run that is not to be resumed or is another one.
    """
    there = (folder / CONFIG).exists()
    if not there and folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} holds something that is no run. Give another --out.")
    if there and not (resume or overwrite):
        raise ConfigError(f"{folder} holds a run. Add --resume to go on with it, or --overwrite to start anew.")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"another process is at work on {folder}. Wait for it, or give another --out.") from None
        if there and resume:
            if changed := _changed(config, read(folder)):
                raise ConfigError(
                    f"{folder} was begun with another {changed[0]}: "
                    f"{changed[1]!r}, not {changed[2]!r}. Change it back to go on, or give another --out."
                )
        elif there:
            for path in folder.iterdir():
                if path.name != ".lock":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        _write(folder / CONFIG, as_table(config))
        yield


def read(folder: Path) -> Config:
    """The configuration of the run in this folder. Raises ConfigError if there is none."""
    try:
        return from_table(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder}: no folder of a run, which has a {CONFIG} that can be read: {error}") from error


def _changed(config: Config, before: Config) -> tuple[str, Any, Any] | None:
    """The first key that may not differ and does, with both values."""
    old, new = _flat(as_table(before)), _flat(as_table(config))
    for key in sorted(old.keys() | new.keys()):
        free = key not in _BOUND and any(key == each or key.startswith(each + ".") for each in _FREE)
        if old.get(key) != new.get(key) and not free:
            return key, old.get(key), new.get(key)
    return None


def _flat(table: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(table, dict):
        return {key: value for name, one in table.items() for key, value in _flat(one, f"{prefix}{name}.").items()}
    return {prefix[:-1]: table}


def _write(path: Path, table: Any) -> None:
    aside = path.with_name(path.name + ".new")
    aside.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    aside.replace(path)
