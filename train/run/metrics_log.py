"""The logs of a run, as JSON lines: metrics of each step, some of its completions, and a timeline.

    RUN/metrics.jsonl    {"step": 3, "reward": 0.41, "kl": null, ...}    names: step_metrics.py; null: unknown
    RUN/samples.jsonl    {"step": 3, "problem": "taco/17", "text": "...", "verdict": "accepted", "reward": 1.0}
    RUN/timeline.jsonl   {"step": 3, "part": "sample", "began": 12.01, "ended": 14.7, "batch": 4}

Lines are flushed, but not fsynced, before the next step begins. TensorBoard and wandb receive the same metrics.

A timeline line is an interval in which a part of the run was busy, in seconds since the run's start. A batch's
number is the step that trains on it: under the pipeline `one-off`, batch 4 is sampled during step 3.
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError

if TYPE_CHECKING:
    from train.rollouts.groups import Rollout

METRICS, SAMPLES, TIMELINE = "metrics.jsonl", "samples.jsonl", "timeline.jsonl"


class Timeline:
    """Thread-safe writer of a run's timeline. after_seconds: seconds of the run before it resumed."""

    def __init__(self, folder: Path, *, after_seconds: float = 0.0) -> None:
        self._path = folder / TIMELINE
        self._start = time.monotonic() - after_seconds
        self._lock = threading.Lock()

    def clock(self) -> float:
        return time.monotonic() - self._start

    def record(self, step: int, part: str, start_time: float, end_time: float, *, batch: int | None = None) -> None:
        """Append a busy interval, in seconds since the run's start.

        batch: number of the batch, if it may differ from the step
        """
        line = {"step": step, "part": part, "began": round(start_time, 4), "ended": round(end_time, 4)}
        with self._lock:
            _append(self._path, [line if batch is None else {**line, "batch": batch}])

    @contextmanager
    def record_part(self, step: int, part: str) -> Iterator[None]:
        """Record the time spent in a `with` block."""
        start_time = self.clock()
        try:
            yield
        finally:
            self.record(step, part, start_time, self.clock())


class MetricsLog:
    """Writer of a run's metrics.

    tensorboard  whether to write TensorBoard event files, too
    wandb        project in Weights & Biases; empty: do not log there

    Raises ConfigError if a requested logger is not installed or cannot start, and OSError if the folder is not
    writable.
    """

    def __init__(self, folder: Path, *, tensorboard: bool = False, wandb: str = "") -> None:
        for name in ["tensorboard"] * tensorboard + ["wandb"] * bool(wandb):
            spec = find_spec(name)
            # A folder `wandb` with logs is found as a namespace package, whose origin is None.
            if spec is None or spec.origin is None:
                raise ConfigError(f"{name} is not installed. Type: pip install {name}, or remove run.{name}.")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._uses_tensorboard = tensorboard
        self._board: Any = None
        self._wandb: Any = _open_wandb_run(folder, wandb) if wandb else None

    def truncate_after(self, step: int) -> dict[str, float]:
        """Delete the lines of later steps, and return the metrics of the last remaining step; empty if none.

        Call this before the first `log`.
        """
        for name in (METRICS, SAMPLES, TIMELINE):
            delete_after_step(self._folder / name, step)
        self._open_board(step + 1)
        last = read_metrics(self._folder)[-1:]
        return {name: value for line in last for name, value in line.items() if value is not None}

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write metrics of a step. Another call for the same step adds metrics."""
        values = {name: _replace_nonfinite(value) for name, value in metrics.items()}
        _append(self._folder / METRICS, [{"step": step, **values}])
        known = {name: value for name, value in metrics.items() if isfinite(value)}
        self._open_board(step)
        if self._board is not None:
            for name, value in known.items():
                self._board.add_scalar(name, value, step)
            self._board.flush()
        if self._wandb is not None:
            self._wandb.log({**known, "step": step})

    def log_samples(self, step: int, rollouts: "Iterable[Rollout]") -> None:
        """Write completions of a step, with their verdicts and rewards."""
        lines = (
            {"step": step, "problem": one.problem_id, "text": one.text, "verdict": one.verdict,
             "reward": _replace_nonfinite(one.reward)}
            for one in rollouts
        )  # fmt: skip
        _append(self._folder / SAMPLES, lines)

    def close(self) -> None:
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish()
        self._board = self._wandb = None

    def _open_board(self, step: int) -> None:
        if self._uses_tensorboard and self._board is None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(self._folder / "tensorboard", purge_step=step)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return a run's metrics, a dictionary for each step, in order; unknown values are None."""
    by_step: dict[int, dict[str, Any]] = {}
    for line in read_json_lines(folder / METRICS):
        by_step.setdefault(line["step"], {}).update(line)
    return [by_step[step] for step in sorted(by_step)]


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a run's file; skip torn lines of a killed run, and objects without a step."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                content = json.loads(line)
            except ValueError:
                continue
            if isinstance(content, dict) and isinstance(content.get("step"), int):
                yield content


def delete_after_step(path: Path, step: int) -> None:
    """Delete the lines of later steps, atomically."""
    if not path.exists():
        return
    aside = path.with_name(path.name + ".new")
    with aside.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in read_json_lines(path) if line["step"] <= step)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _append(path: Path, new_lines: Iterable[Mapping[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(line) + "\n" for line in new_lines))


def _replace_nonfinite(value: float) -> float | None:
    """Return None for nan and infinity, which JSON lacks."""
    return value if isfinite(value) else None


def _open_wandb_run(folder: Path, project: str) -> Any:
    import wandb

    id_file = folder / "wandb.id"  # lets a resumed run continue the same wandb run
    if not id_file.exists():
        id_file.write_text(secrets.token_hex(8))
    try:
        run = wandb.init(project=project, id=id_file.read_text(), name=folder.name, dir=str(folder), resume="allow")
    except Exception as error:  # many types, such as for network or account errors
        raise ConfigError(
            f"wandb cannot start: {str(error).rstrip('.')}. Type: wandb login, or set WANDB_MODE=offline, or remove "
            "run.wandb."
        ) from error
    run.define_metric("*", step_metric="step")
    return run
