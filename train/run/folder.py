"""The folder of a training run, which one process locks at a time.

RUN/config.json      the whole configuration, defaults included
RUN/metrics.jsonl    metrics of each step
RUN/samples.jsonl    some completions of each step
RUN/cost.json        cost of the GPUs, if their price is configured
RUN/timeline.jsonl   busy intervals of each part of the run
RUN/evaluations/     results of evaluations, and pending ones
RUN/best/            best weights so far, if evaluation.keep_best names a suite
RUN/checkpoints/     checkpoints, from which --resume continues
RUN/journal/         group events of an asynchronous run
RUN/reward_model/    rankings for training reward.model, and the trained models
RUN/workers/         logs of this machine's rollout workers
RUN/model/           the trained model, with its card
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from curate.dataset.output_folder import write_atomic
from curate.reading.values import shorten
from sandbox.concurrency.file_lock import FileLock
from train.config import Config, as_table, from_table
from train.errors import ConfigError

CONFIG, _LOCK = "config.json", ".lock"
# Files and folders written before the first sample. A run that fails its startup checks leaves only these.
_EARLY_FILES = (_LOCK, CONFIG, "prompts.jsonl", "workers", "journal")
# Sections and keys that may change when a run resumes. The dataset digest in the checkpoint detects a data.include that
# changes the problems.
_MAY_CHANGE = (
    "run", "evaluation", "engine", "workers", "data.include", "sandbox", "limits", "rollout.max_seconds",
    "rollout.max_running_groups", "reward.model_device", "optimizer.row_tokens", "optimizer.offload", "ranks",
)  # fmt: skip
_MUST_STAY = (
    "run.seed",  # the order of prompts depends on it
    "sandbox.packages_sha256",  # rewards depend on the packages that programs import
)


@contextmanager
def open_run(folder: Path, config: Config, *, resume: bool = False, overwrite: bool = False) -> Iterator[None]:
    """Lock a run's folder for this process, create it if missing, and write the configuration.

    resume: continue the run in the folder, if there is one

    Replaces a run that has no samples yet. Raises ConfigError if another process holds the lock, or the folder holds
    other files. Raises it for an existing run without `resume` or `overwrite`, or with settings that must not change.
    """
    if folder.exists() and not (folder / CONFIG).exists() and any(path.name != _LOCK for path in folder.iterdir()):
        raise ConfigError(f"{folder} exists and is not a training run. Choose another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    in_use = ConfigError(f"another command is writing to {folder}. Wait for it, or choose another --out.")
    with FileLock(folder / _LOCK, in_use):
        exists = (folder / CONFIG).exists()
        has_begun = exists and _has_begun(folder)
        if has_begun and not (resume or overwrite):
            raise ConfigError(f"{folder} holds a run. Add --resume to continue it, or --overwrite to replace it.")
        if has_begun and resume:
            _check_unchanged(folder, config)
        elif exists:
            for path in folder.iterdir():
                if path.name != _LOCK:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        write_atomic(folder / CONFIG, json.dumps(as_table(config), indent=1) + "\n")
        yield


def read_stored_config(folder: Path) -> Config:
    """Read the configuration of the run in this folder. Raises ConfigError if there is none."""
    try:
        return from_table(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder} is not the folder of a run: its {CONFIG} cannot be read: {error}") from error


def _has_begun(folder: Path) -> bool:
    for path in folder.rglob("*"):
        if path.relative_to(folder).parts[0] not in _EARLY_FILES and path.is_file() and path.stat().st_size:
            return True
    if not (folder / "journal").is_dir():
        return False
    from train.asynchronous import journal
    from train.asynchronous.events import GroupDispatched

    return any(isinstance(event, GroupDispatched) for event in journal.read_events(folder / journal.FOLDER))


def _check_unchanged(folder: Path, config: Config) -> None:
    old, new = _flatten(as_table(read_stored_config(folder))), _flatten(as_table(config))
    for key in sorted(old.keys() | new.keys()):
        may_change = any(key == free or key.startswith(f"{free}.") for free in _MAY_CHANGE) and key not in _MUST_STAY
        if old.get(key) != new.get(key) and not may_change:
            raise ConfigError(
                f"the run in {folder} started with {key} = {shorten(repr(old.get(key)))}, not "
                f"{shorten(repr(new.get(key)))}. Restore it to continue, or choose another --out."
            )


def _flatten(table: Any, prefix: str = "") -> dict[str, Any]:
    """Return a nested table as one table with dotted keys."""
    if isinstance(table, dict):
        return {key: value for name, item in table.items() for key, value in _flatten(item, f"{prefix}{name}.").items()}
    return {prefix[:-1]: table}
