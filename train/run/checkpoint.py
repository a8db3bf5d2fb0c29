"""Checkpoints: the complete state for an exact resume, in a folder that is renamed atomically once it is complete.

RUN/checkpoints/step-000010/    learner/: weights, optimizer, schedule; a shard from each rank
                                ahead.frames: the batch sampled ahead, if any, in the journal's format
                                progress.json: step, data position, stage
"""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from train.asynchronous.events import Event
from train.asynchronous.journal import fsync_path, read_event_file, write_events
from train.errors import CheckpointError, suggest_remedy

FOLDER = "checkpoints"
_LEARNER, _AHEAD, _PROGRESS = "learner", "ahead.frames", "progress.json"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run after a step.

    position           position of the next prompt
    num_tokens         tokens since the run's start
    seconds            seconds since the run's start
    stage              index of the stage of completion length
    recent_clipped     truncated share of each recent step
    signal_share       share of groups with a signal in the latest batch
    sampled_ahead      groups of the next step's batch, if already sampled
    dataset_digest     digest of the prompt dataset to which `position` refers
    evaluated_seconds  start of the latest evaluation, in seconds since the run's start
    """

    step: int = 0
    position: int = 0
    num_tokens: float = 0.0
    seconds: float = 0.0
    stage: int = 0
    recent_clipped: tuple[float, ...] = ()
    signal_share: float = 1.0
    sampled_ahead: tuple[Event, ...] = ()
    dataset_digest: str = ""
    evaluated_seconds: float = 0.0


def save(run: Path, progress: RunProgress, save_learner: Callable[[Path], Future[None]], *, keep: int) -> Future[Path]:
    """Begin to write a checkpoint; once it is complete, delete all but the newest `keep` checkpoints.

    save_learner: starts to write the learner's state to a new folder, as Learner.save_state does

    Wait for the returned future, whose result is the checkpoint's folder, before the next call. The call or the future
    raises CheckpointError if the checkpoint cannot be written; earlier ones stay valid.
    """
    folder = run / FOLDER / f"step-{progress.step:06d}"
    aside = folder.with_name(f".{folder.name}.writing")
    saved: Future[Path] = Future()

    def to_checkpoint_error(error: BaseException) -> CheckpointError:
        shutil.rmtree(aside, ignore_errors=True)
        return CheckpointError(
            f"cannot write checkpoint {folder}: {error}. {suggest_remedy(error)}; the same command with --resume "
            f"continues from {'the checkpoint before' if list_checkpoints(run) else 'the start'}."
        )

    def complete(learner: Future[None]) -> None:
        try:
            learner.result()
            fsync_path(aside)
            shutil.rmtree(folder, ignore_errors=True)  # from before the run resumed at an earlier step
            aside.rename(folder)
            fsync_path(folder.parent)
            for old in list_checkpoints(run)[: -max(keep, 1)]:
                shutil.rmtree(old)
        except BaseException as error:
            saved.set_exception(to_checkpoint_error(error))
        else:
            saved.set_result(folder)

    try:
        for incomplete in folder.parent.glob(".step-*.writing"):  # of a killed process
            shutil.rmtree(incomplete)
        aside.mkdir(parents=True)
        if progress.sampled_ahead:
            write_events(aside / _AHEAD, progress.sampled_ahead)
        numbers = asdict(replace(progress, sampled_ahead=()))
        del numbers["sampled_ahead"]
        (aside / _PROGRESS).write_text(json.dumps(numbers), encoding="utf-8")
        for path in aside.iterdir():
            fsync_path(path)
        learner = save_learner(aside / _LEARNER)
    except OSError as error:
        raise to_checkpoint_error(error) from error
    learner.add_done_callback(complete)
    return saved


def list_checkpoints(run: Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first."""
    return sorted((run / FOLDER).glob("step-*"))


def find_oldest_step(run: Path) -> int:
    """Return the step of the oldest checkpoint of a run with at least one."""
    return int(list_checkpoints(run)[0].name.removeprefix("step-"))


def load(folder: Path, load_learner: Callable[[Path], None]) -> RunProgress:
    """Load a checkpoint into the learner, and return its progress.

    load_learner: loads the learner's state from a folder, as Learner.load_state does

    Raises CheckpointError if the checkpoint is damaged.
    """
    try:
        progress = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
        if (folder / _AHEAD).exists():
            progress["sampled_ahead"] = tuple(read_event_file(folder / _AHEAD))
        progress["recent_clipped"] = tuple(progress["recent_clipped"])
        read = RunProgress(**progress)
    except Exception as error:  # damaged files raise many types
        raise _build_damage_error(folder, error) from error
    try:
        load_learner(folder / _LEARNER)
    except CheckpointError as error:
        raise _build_damage_error(folder, error) from error
    return read


def _build_damage_error(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{folder}: a damaged checkpoint ({type(error).__name__}: {error}). Delete that folder; then --resume "
        "continues from the previous checkpoint."
    )
