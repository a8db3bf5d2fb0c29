"""What a run says of itself: a line of figures for each step, and some of its completions.

    RUN/metrics.jsonl    {"step": 3, "reward": 0.41, "kl": null, ...}    names: train/run/figures.py; null: unknown
    RUN/samples.jsonl    {"step": 3, "problem": "taco/17", "text": "...", "verdict": "accepted", "reward": 1.0}

A line is in the operating system's hands before the next step begins. TensorBoard and wandb get the same figures.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError
from train.run.timeline import TIMELINE

if TYPE_CHECKING:
    from train.rollouts.batch import Rollout

METRICS, SAMPLES = "metrics.jsonl", "samples.jsonl"


class Metrics:
    """The figures of the run in this folder. wandb: name of a project. Raises ConfigError where what is asked for is
    not to be had, and OSError where the folder cannot be written to."""

    def __init__(self, folder: Path, *, tensorboard: bool = False, wandb: str = "") -> None:
        for asked, name in ((tensorboard, "tensorboard"), (bool(wandb), "wandb")):
            if asked and not _installed(name):
                raise ConfigError(f"{name} is not installed. Type: pip install {name}, or leave run.{name} out.")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._wants_board = tensorboard
        self._board: Any = None
        self._wandb: Any = _wandb_run(folder, wandb) if wandb else None

    def resumed_at(self, step: int) -> dict[str, float]:
        """Forget what was said after this step, which will be said again; gives the figures of the last step that
        stays, so that sums such as num_tokens go on. To be called before the first `log`."""
        for name in (METRICS, SAMPLES, TIMELINE):
            forget_after(self._folder / name, step)
        self._open_board(step + 1)
        last = steps(self._folder)[-1:]
        return {name: value for line in last for name, value in line.items() if value is not None}

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Keep the figures of a step. A second call for the same step adds to the first."""
        _append(self._folder / METRICS, [{"step": step, **{name: _known(value) for name, value in figures.items()}}])
        known = {name: value for name, value in figures.items() if isfinite(value)}
        self._open_board(step)
        if self._board is not None:
            for name, value in known.items():
                self._board.add_scalar(name, value, step)
            self._board.flush()
        if self._wandb is not None:
            self._wandb.log({**known, "step": step})

    def sample(self, step: int, rollouts: "Iterable[Rollout]") -> None:
        """Keep some completions with what became of them."""
        _append(
            self._folder / SAMPLES,
            [
                {
                    "step": step,
                    "problem": r.problem_id,
                    "text": r.text,
                    "verdict": r.verdict,
                    "reward": _known(r.reward),
                }
                for r in rollouts
            ],
        )

    def close(self) -> None:
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish()
        self._board = self._wandb = None

    def _open_board(self, step: int) -> None:
        """Once. What TensorBoard may know of this step and of later ones does not count."""
        if self._wants_board and self._board is None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(self._folder / "tensorboard", purge_step=step)


def steps(folder: Path) -> list[dict[str, Any]]:
    """The figures of a run, a dictionary for each step, in order; None: unknown. Empty where there are none yet."""
    found: dict[int, dict[str, Any]] = {}
    for line in lines(folder / METRICS):
        found.setdefault(line["step"], {}).update(line)
    return [found[step] for step in sorted(found)]


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of a run, each of which has a step; without those that a kill has torn."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and isinstance(found.get("step"), int):
                yield found


def forget_after(path: Path, step: int) -> None:
    """Drop the lines of later steps, all at once or not at all."""
    if not path.exists():
        return
    aside = path.with_name(path.name + ".new")
    with aside.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines(path) if line["step"] <= step)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _append(path: Path, found: Iterable[Mapping[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(line) + "\n" for line in found))


def _known(value: float) -> float | None:
    """JSON has neither nan nor infinity."""
    return value if isfinite(value) else None


def _installed(package: str) -> bool:
    found = find_spec(package)
    return found is not None and found.origin is not None  # a folder of that name, such as wandb makes, has none


def _wandb_run(folder: Path, project: str) -> Any:
    import wandb

    name = folder / "wandb.id"  # a resumed run goes on in the same curves
    if not name.exists():
        name.write_text(secrets.token_hex(8))
    try:
        run = wandb.init(project=project, id=name.read_text(), name=folder.name, dir=str(folder), resume="allow")
    except Exception as error:  # of the network, of the account, of its own process
        raise ConfigError(
            f"wandb: {str(error).rstrip('.')}. Type: wandb login, or set WANDB_MODE=offline, or leave run.wandb out."
        ) from error
    run.define_metric("*", step_metric="step")
    return run
