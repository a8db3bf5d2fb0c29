"""Small training runs for tests, on six problems and the tiny model that was taught them."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import forked
import tiny_world
from source_rows import write_jsonl

from sandbox import SandboxOptions
from train import config
from train.config import Config

if TYPE_CHECKING:
    from torch import Tensor

SMALL = """
[model]
path = "{model}"
[data]
dataset = "{dataset}"
include = ["unverified"]
[rollout]
prompts = 3
completions = 6
online_filter = false
[engine]
kind = "transformers"
[sandbox]
workers = 2
[optimizer]
learning_rate = 1e-3
[run]
steps = 4
checkpoint_steps = 1
save_samples = 100
[[stages]]
max_tokens = 36
"""

SMALL_SIZES = (  # values of --set by which a preset can be trained on a CPU
    "model.dtype=float32",
    "data.max_prompt_tokens=512",
    "rollout.prompts=3",
    "rollout.completions=6",
    "rollout.online_filter=false",
    "engine.kind=transformers",
    "engine.gpus=[]",
    "engine.tensor_parallel=1",
    "engine.memory_share=0.5",
    "sandbox.workers=2",
    "optimizer.minibatches=2",
    "optimizer.row_tokens=256",
    "stages.0.max_tokens=36",
)


def dataset(folder: Path) -> Path:
    """Build a dataset of the six problems, and return its folder."""
    from curate.pipeline import BuildOptions, build

    raw = write_jsonl(folder / "raw" / "test.jsonl", tiny_world.rows())
    build([("livecodebench", str(raw))], folder / "out", BuildOptions(), sandbox=SandboxOptions(workers=2))
    return folder / "out"


def written(folder: Path, model: Path, dataset: Path) -> Path:
    """Write the configuration file of a small run, and return its path."""
    path = folder / "run.toml"
    path.write_text(SMALL.format(model=model, dataset=dataset))
    return path


def without_a_file(preset: str, model: Path, dataset: Path, *changes: str) -> list[str]:
    """Return the words of `curate train` for a small run that has no configuration file."""
    words = ["--preset", preset, "--model", str(model), "--data", str(dataset)]
    for change in (*SMALL_SIZES, *changes):
        words += ["--set", change]
    return words


_START = """
from types import SimpleNamespace
from curate.commands.main import main
from train import child
child.sys = SimpleNamespace(executable={python!r})
main()
"""


def command(path: Path, run: Path, *options: str) -> list[str]:
    """Return the arguments of `curate train` for tests/forked.py. The workers that it starts are forks, too."""
    start = _START.format(python=forked.python())
    return [sys.executable, "-W", "ignore", "-c", start, "train", str(path), "--out", str(run), *options]


def read(path: Path, *changes: str) -> Config:
    return config.read_config(path, changes)


def trained(
    path: Path,
    run: Path,
    *changes: str,
    resume: bool = False,
    report: Callable[[int, Mapping[str, float]], None] = lambda step, metrics: None,
) -> Path:
    """Train as the configuration file says, with changes, and return the folder of the run."""
    from train import loop
    from train.run.folder import open_run

    settings = read(path, *changes)
    with open_run(run, settings, resume=resume):
        loop.train(settings, run, report=report)
    return run


def weights(run: Path) -> "dict[str, Tensor]":
    """Return the weights of the model of a finished run."""
    from safetensors.torch import load_file

    return load_file(run / "model" / "model.safetensors")


def same(one: "Mapping[str, Tensor]", other: "Mapping[str, Tensor]") -> bool:
    """Return whether weights are the same to the last bit."""
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
