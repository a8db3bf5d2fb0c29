"""Small training runs for tests, on six problems and the tiny model that was taught them."""

import json
from pathlib import Path

import tiny_world
from source_rows import write_jsonl

from sandbox import SandboxOptions
from train import config
from train.config import Config

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


def dataset(folder: Path) -> Path:
    """Build a dataset of the six problems, and return its folder."""
    from curate.pipeline import Options, build

    raw = write_jsonl(folder / "raw" / "test.jsonl", tiny_world.rows())
    build([("livecodebench", str(raw))], folder / "out", Options(), sandbox=SandboxOptions(workers=2))
    return folder / "out"


def written(folder: Path, model: Path, dataset: Path) -> Path:
    """Write the configuration file of a small run, and return its path."""
    path = folder / "run.toml"
    path.write_text(SMALL.format(model=model, dataset=dataset))
    return path


def read(path: Path, *changes: str) -> Config:
    return config.read_config(path, changes)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
