"""Checkpoints: all that a run needs to continue as if nothing had happened, in one folder that is complete or absent.

RUN/checkpoints/step-000010/    learner/: weights, optimizer, schedule; each rank has written its own part of them
                                ahead.parquet: the batch that was sampled ahead, if there is one
                                progress.json: step, data position, stage: a few numbers, whatever the batch's size

ahead.parquet has one row for each completion. Tokens and log-probabilities are typed columns, so that the file has a
few bytes for each token, and numbers come back to the last bit. Lists of pairs, which are short, are JSON.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from train.asynchronous.journal import fsync_path
from train.errors import CheckpointError, recovery_hint
from train.rollouts.groups import Group, Rollout

FOLDER = "checkpoints"
_LEARNER, _PREFETCH, _PROGRESS = "learner", "ahead.parquet", "progress.json"
_GROUP = "group"  # the column with the number of a completion's group
_COLUMNS = {"reward_components": "parts", "step_rewards": "steps", "sampled_mask": "drawn"}  # of fields by other names


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run has come after a step."""

    step: int = 0
    position: int = 0  # the position of the next prompt
    num_tokens: float = 0.0  # since the run's start
    seconds: float = 0.0  # since the run's start
    stage: int = 0
    recent_clipped: tuple[float, ...] = ()
    prefetched_groups: tuple[Group, ...] | None = None  # the next step's batch, if it was sampled already
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
        if progress.prefetched_groups is not None:
            write_groups(aside / _PREFETCH, progress.prefetched_groups)
        numbers = asdict(replace(progress, prefetched_groups=None))
        numbers |= {"questions": numbers.pop("dataset_digest"), "ahead": numbers.pop("prefetched_groups")}
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
        progress["prefetched_groups"] = read_groups(folder / _PREFETCH) if (folder / _PREFETCH).exists() else None
        progress["dataset_digest"] = progress.pop("questions")
        progress["recent_clipped"] = tuple(progress["recent_clipped"])
        del progress["ahead"]
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


def write_groups(path: Path, groups: Sequence[Group]) -> None:
    """Write the groups to a file. Raises OSError if it cannot be written."""
    import pyarrow as pa
    import pyarrow.parquet

    rollouts = [rollout for group in groups for rollout in group]
    columns = {_GROUP: pa.array([number for number, group in enumerate(groups) for _ in group], pa.int32())}
    for name, kind in get_type_hints(Rollout).items():
        columns[_COLUMNS.get(name, name)] = _column([getattr(rollout, name) for rollout in rollouts], kind)
    # Most log-probabilities are float32 in float64, and versions hardly change: both shrink to less than half.
    pyarrow.parquet.write_table(pa.table(columns), path, compression="zstd", use_dictionary=["versions.list.element"])


def read_groups(path: Path) -> tuple[Group, ...]:
    """Return the groups in a file. Raises OSError or ValueError if it is damaged."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    columns = [
        _values(table.column(_COLUMNS.get(name, name)).combine_chunks(), kind)
        for name, kind in get_type_hints(Rollout).items()
    ]
    groups: dict[int, list[Rollout]] = {}
    for number, values in zip(table.column(_GROUP).to_pylist(), zip(*columns, strict=True), strict=True):
        groups.setdefault(number, []).append(Rollout(*values))
    return tuple(map(tuple, groups.values()))


def _column(values: Sequence[Any], kind: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    scalars = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), int: pa.int64()}
    if kind in scalars:
        return pa.array(values, scalars[kind], from_pandas=False)
    element = _element(kind)
    if get_origin(element) is tuple:
        return pa.array(list(map(json.dumps, values)), pa.string())
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(values), np.float64 if element is float else np.int64, count=int(ends[-1]))
    if element is not float:
        flat = flat.astype(np.int32, casting="same_kind")
    return pa.LargeListArray.from_arrays(pa.array(ends), pa.array(flat, from_pandas=False))


def _values(column: Any, kind: Any) -> list[Any]:
    element = _element(kind)
    if element is None:
        values: list[Any] = column.to_pylist()
        return values
    if get_origin(element) is tuple:
        return [tuple(map(tuple, json.loads(text))) for text in column.to_pylist()]
    flat = column.values.to_numpy(zero_copy_only=False).tolist()  # much faster than to_pylist of the lists
    if element is bool:
        flat = list(map(bool, flat))
    return [tuple(flat[first:end]) for first, end in pairwise(column.offsets.to_pylist())]


def _element(kind: Any) -> Any:
    """Return the type of the elements of tuple[element, ...], or None for another type."""
    return get_args(kind)[0] if get_origin(kind) is tuple else None
