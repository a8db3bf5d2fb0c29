"""All that a run needs to continue as if nothing had happened, in one folder, which is complete or does not exist.

RUN/checkpoints/step-000010/    learner.pt: weights, optimizer, schedule, random state
                                progress.json: step, data position, stage, and the batch that was sampled ahead
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
    """How far a run has come after a step."""

    step: int = 0
    position: int = 0  # the position of the next prompt
    num_tokens: float = 0.0  # since the run's start
    seconds: float = 0.0  # since the run's start
    stage: int = 0
    recent_clipped: tuple[float, ...] = ()
    ahead: tuple[Group, ...] | None = None  # the next step's batch, if it was sampled already
    questions: str = ""  # digest of the questions, since a position is only meaningful for the same questions


def save(run: Path, progress: Progress, learner: dict[str, Any], *, keep: int) -> Path:
    """Write a checkpoint, then delete all but the newest `keep`. Raises CheckpointError; earlier ones stay valid."""
    folder = run / FOLDER / f"step-{progress.step:06d}"
    aside = folder.with_name(f".{folder.name}.writing")
    try:
        for leftover in folder.parent.glob(".step-*.writing"):  # a run that was killed left it behind
            shutil.rmtree(leftover)
        aside.mkdir(parents=True)
        torch.save(learner, aside / _LEARNER)
        (aside / _PROGRESS).write_text(json.dumps(asdict(progress)), encoding="utf-8")
        for path in (aside / _LEARNER, aside / _PROGRESS, aside):
            _flush(path)
        shutil.rmtree(folder, ignore_errors=True)  # from an attempt that was later resumed at an earlier step
        aside.rename(folder)
        _flush(folder.parent)
        for old in steps(run)[: -max(keep, 1)]:
            shutil.rmtree(old)
    except (OSError, RuntimeError) as error:  # torch turns a full disk into a RuntimeError
        shutil.rmtree(aside, ignore_errors=True)
        raise CheckpointError(
            f"cannot write checkpoint {folder}: {error}. Make room; the same command with --resume continues from "
            f"{'the checkpoint before' if steps(run) else 'the start'}."
        ) from error
    return folder


def steps(run: Path) -> list[Path]:
    """Return the folders of the complete checkpoints of a run, oldest first."""
    return sorted((run / FOLDER).glob("step-*"))


def load(folder: Path) -> tuple[Progress, dict[str, Any]]:
    """Return the progress and the learner's state in a checkpoint. Raises CheckpointError if it is damaged."""
    try:
        learner = torch.load(folder / _LEARNER, map_location="cpu", weights_only=True)
        progress = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
        ahead = None if progress["ahead"] is None else tuple(map(_group, progress["ahead"]))
        return Progress(**{**progress, "recent_clipped": tuple(progress["recent_clipped"]), "ahead": ahead}), learner
    except Exception as error:  # many types of exceptions, depending on what is damaged
        raise CheckpointError(
            f"{folder}: a damaged checkpoint ({type(error).__name__}: {error}). Delete that folder; then --resume "
            "continues from the one before."
        ) from error


def _group(rollouts: Sequence[dict[str, Any]]) -> Group:
    # Not by curate.json_records: it would look at every single token of a batch.
    lists = ("prompt_ids", "token_ids", "logprobs", "versions")
    return tuple(Rollout(**{**rollout, **{name: tuple(rollout[name]) for name in lists}}) for rollout in rollouts)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
