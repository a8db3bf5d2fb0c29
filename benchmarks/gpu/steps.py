"""Whole training steps: learner and engine in turns on one GPU, and side by side on two.

The model is random, so nothing is learned: the check is that every step ends, and how long its parts take.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.gpu import models
from benchmarks.gpu.outcome import need_vllm, print_figures

ROOT = Path(__file__).parents[2]
STEPS = 3
CONFIGURATION = """
[model]
path = "{model}"
dtype = "bfloat16"
activation_checkpointing = true
[data]
dataset = "{dataset}"
include = ["unverified", "suspects"]
[rollout]
prompts = 8
completions = 8
online_filter = false
[engine]
memory_share = 0.5
parity = 1.05
[optimizer]
learning_rate = 1e-6
row_tokens = 16384
[run]
steps = {steps}
checkpoint_steps = 100
most_truncated = 1.0
[[stages]]
max_tokens = 1024
"""
ONE_GPU = {"sync": ["rollout.pipeline=sync"]}
TWO_GPUS = {
    "one-off": ["rollout.pipeline=one-off", "engine.gpus=[1]"],
    "async": [
        "rollout.pipeline=async",
        "rollout.staleness=2",
        "objective.old=learner",
        "objective.truncation=2.0",
        "engine.gpus=[1]",
    ],
}


def curate(*words: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-m", "cli", *words], cwd=ROOT, check=True, env={**os.environ})


def main() -> None:
    need_vllm()
    folder = Path(tempfile.mkdtemp(prefix="curate-gpu-"))
    sources = [f"--source={name}=examples/raw/{name}" for name in ("taco", "synthetic1", "livecodebench")]
    curate("build-dataset", *sources, "--out", str(folder / "data"), "--mutants", "0")
    model = models.folder(models.SIX_HUNDRED_MILLION)
    (folder / "run.toml").write_text(CONFIGURATION.format(model=model, dataset=folder / "data", steps=STEPS))
    ways, figures = {**ONE_GPU, **(TWO_GPUS if torch.cuda.device_count() > 1 else {})}, {}
    for way, changes in ways.items():
        settings = [word for change in changes for word in ("--set", change)]
        curate("train", str(folder / "run.toml"), "--out", str(folder / way), *settings)
        lines = [json.loads(line) for line in (folder / way / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if "step_time" in line]
        assert len(steps) == STEPS, lines
        figures[way] = {
            name: round(steps[-1][name], 3)
            for name in ("step_time", "weight_sync_s", "idle/trainer", "idle/sampler", "mismatch/kl")
            if name in steps[-1]
        }
    print_figures(seconds_by_part=figures, skipped=[] if len(ways) > 1 else list(TWO_GPUS))


if __name__ == "__main__":
    main()
