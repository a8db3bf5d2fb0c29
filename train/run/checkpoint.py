"""What a run needs to go on as if nothing had happened, in one folder that is there whole or not at all.

RUN/checkpoints/step-000010/    learner.pt: weights, optimizer, schedule, random state
                                progress.json: step, data position, stage, and what was sampled ahead
"""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from train.errors import CheckpointError
from train.rollouts.batch import Group, Rollout

FOLDER = "checkpoints"
_LEARNER, _PROGRESS = "learner.pt", "progress.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is after a step."""

    step: int = 0
    position: int = 0  # of the next prompt
    num_tokens: float = 0.0
    seconds: float = 0.0
    stage: int = 0
    recent_clipped: tuple[float, ...] = ()
    ahead: tuple[Group, ...] | None = None  # the next step's batch, if it was sampled already
    questions: str = ""  # digest of them: a position means nothing among others


def save(run: Path, progress: Progress, learner: dict[str, Any], *, keep: int) -> Path:
    """Write, then drop all but the newest `keep`. Raises CheckpointError; those that are there stay good."""
    folder = run / FOLDER / f"step-{progress.step:06d}"
    aside = folder.with_name(f".{folder.name}.writing")
    try:
        for left in folder.parent.glob(".step-*.writing"):  # by a kill
            shutil.rmtree(left)
        aside.mkdir(parents=True)
        torch.save(learner, aside / _LEARNER)
        (aside / _PROGRESS).write_text(json.dumps(asdict(progress)), encoding="utf-8")
        for path in (aside / _LEARNER, aside / _PROGRESS, aside):
            _flush(path)
        shutil.rmtree(folder, ignore_errors=True)  # of a run that got here before, and was resumed from earlier
        aside.rename(folder)
        _flush(folder.parent)
        for old in steps(run)[: -max(keep, 1)]:
            shutil.rmtree(old)
    except (OSError, RuntimeError) as error:  # torch turns a full disk into a RuntimeError
        shutil.rmtree(aside, ignore_errors=True)
        raise CheckpointError(
            f"cannot write checkpoint {folder}: {error}. Make room; the same command with --resume continues from "
            f"{'the one before' if steps(run) else 'the start'}."
        ) from error
    return folder


def steps(run: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    return sorted((run / FOLDER).glob("step-*"))


def load(folder: Path) -> tuple[Progress, dict[str, Any]]:
    """Raises CheckpointError for a damaged one."""
    try:
        learner = torch.load(folder / _LEARNER, map_location="cpu", weights_only=True)
        found = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
        ahead = None if found["ahead"] is None else tuple(map(_group, found["ahead"]))
        return Progress(**{**found, "recent_clipped": tuple(found["recent_clipped"]), "ahead": ahead}), learner
    except Exception as error:  # of many kinds, by what is damaged
        raise CheckpointError(
            f"{folder}: a damaged checkpoint ({type(error).__name__}: {error}). Delete that folder; then --resume "
            "takes the one before."
        ) from error


def _group(rollouts: Sequence[dict[str, Any]]) -> Group:
    lists = ("prompt_ids", "token_ids", "logprobs", "versions")
    return tuple(Rollout(**{**each, **{name: tuple(each[name]) for name in lists}}) for each in rollouts)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
