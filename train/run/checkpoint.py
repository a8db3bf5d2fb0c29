"""Checkpoints: all that a run needs to continue as if nothing had happened, in one folder that is complete or absent.

RUN/checkpoints/step-000010/    learner/: weights, optimizer, schedule; each rank has written its own part of them
                                ahead.frames: the batch that was sampled ahead, if there is one, as in a journal
                                progress.json: step, data position, stage: a few numbers, whatever the batch's size
"""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from train.asynchronous.events import Event
from train.asynchronous.journal import fsync_path, read_event_file, write_events
from train.errors import CheckpointError, recovery_hint

FOLDER = "checkpoints"
_LEARNER, _AHEAD, _PROGRESS = "learner", "ahead.frames", "progress.json"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run has come after a step."""

    step: int = 0
    position: int = 0  # the position of the next prompt
    num_tokens: float = 0.0  # since the run's start
    seconds: float = 0.0  # since the run's start
    stage: int = 0
    recent_clipped: tuple[float, ...] = ()
    signal_share: float = 1.0  # of the groups of the latest batch, those that taught something
    sampled_ahead: tuple[Event, ...] = ()  # the groups of the next step's batch, if they were sampled already
    dataset_digest: str = ""  # digest of the questions, since a position is only meaningful for the same questions
    evaluated_seconds: float = 0.0  # when the latest evaluation began, since the run's start


def save(run: Path, progress: RunProgress, save_learner: Callable[[Path], Future[None]], *, keep: int) -> Future[Path]:
    """Begin to write a checkpoint; once it is complete, all but the newest `keep` are deleted.

    save_learner: begins to write the learner's state into a new folder, as Learner.save_state does

    The future ends with the checkpoint's folder. Like this function, it raises CheckpointError if the checkpoint cannot
    be written; earlier ones stay valid. Wait for it before the next call.
    """
    folder = run / FOLDER / f"step-{progress.step:06d}"
    aside = folder.with_name(f".{folder.name}.writing")
    saved: Future[Path] = Future()

    def failed(error: BaseException) -> CheckpointError:
        shutil.rmtree(aside, ignore_errors=True)
        return CheckpointError(
            f"cannot write checkpoint {folder}: {error}. {recovery_hint(error)}; the same command with --resume "
            f"continues from {'the checkpoint before' if list_checkpoints(run) else 'the start'}."
        )

    def complete(learner: Future[None]) -> None:
        try:
            learner.result()
            fsync_path(aside)
            shutil.rmtree(folder, ignore_errors=True)  # from an attempt that was later resumed at an earlier step
            aside.rename(folder)
            fsync_path(folder.parent)
            for old in list_checkpoints(run)[: -max(keep, 1)]:
                shutil.rmtree(old)
        except BaseException as error:
            saved.set_exception(failed(error))
        else:
            saved.set_result(folder)

    try:
        for leftover in folder.parent.glob(".step-*.writing"):  # a run that was killed left it behind
            shutil.rmtree(leftover)
        aside.mkdir(parents=True)
        if progress.sampled_ahead:
            write_events(aside / _AHEAD, progress.sampled_ahead)
        numbers = asdict(replace(progress, sampled_ahead=()))
        numbers["questions"] = numbers.pop("dataset_digest")
        del numbers["sampled_ahead"]
        (aside / _PROGRESS).write_text(json.dumps(numbers), encoding="utf-8")
        for path in aside.iterdir():
            fsync_path(path)
        learner = save_learner(aside / _LEARNER)
    except OSError as error:
        raise failed(error) from error
    learner.add_done_callback(complete)
    return saved


def list_checkpoints(run: Path) -> list[Path]:
    """Return the folders of the complete checkpoints of a run, oldest first."""
    return sorted((run / FOLDER).glob("step-*"))


def oldest_step(run: Path) -> int:
    """Return the step of the oldest checkpoint of a run, which must have one."""
    return int(list_checkpoints(run)[0].name.removeprefix("step-"))


def load(folder: Path, load_learner: Callable[[Path], None]) -> RunProgress:
    """Return the progress in a checkpoint, after the learner has continued from its state.

    load_learner: reads the learner's state from a folder, as Learner.load_state does

    Raises CheckpointError if the checkpoint is damaged.
    """
    try:
        progress = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
        if (folder / _AHEAD).exists():
            progress["sampled_ahead"] = tuple(read_event_file(folder / _AHEAD))
        progress["dataset_digest"] = progress.pop("questions")
        progress["recent_clipped"] = tuple(progress["recent_clipped"])
        read = RunProgress(**progress)
    except Exception as error:  # many types of exceptions, depending on what is damaged
        raise _damaged(folder, error) from error
    try:
        load_learner(folder / _LEARNER)
    except CheckpointError as error:
        raise _damaged(folder, error) from error
    return read


def _damaged(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{folder}: a damaged checkpoint ({type(error).__name__}: {error}). Delete that folder; then --resume "
        "continues from the one before."
    )
