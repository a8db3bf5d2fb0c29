"""Training runs of tiny models on CPUs: their commands, results, and plots of their curves."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib

from benchmarks.record import ROOT
from train.run.metrics_log import read_metrics

LEARN = ROOT / "runs" / "learn"
CONFIG = ROOT / "examples" / "learn" / "grpo_plus.toml"
PASSED = "eval/pass@1"
# vLLM in the calling process, with a GiB of cache and without access to the Hub.
VLLM_ON_CPU = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
}

Curve = list[tuple[int, float]]  # step and pass@1


def make_seed_settings(seed: int) -> list[str]:
    """Return the settings for the model, the problems and the seed of `make learn SEED=seed`."""
    folder = LEARN / f"seed-{seed}"
    return [f"model.path={folder / 'warm'}", f"data.dataset={folder / 'band'}", f"run.seed={seed}"]


def make_train_command(
    out: Path, settings: Iterable[str], config: Path = CONFIG, start: Sequence[str] = ("-m", "cli")
) -> list[str]:
    """Return the command that starts or resumes a run.

    start: arguments with which Python starts curate
    """
    command = [sys.executable, "-W", "ignore", *start, "train", str(config), "--out", str(out), "--resume"]
    return command + [word for setting in settings for word in ("--set", setting)]


def has_model(run: Path) -> bool:
    """Return whether a run has written its final model."""
    return (run / "model" / "config.json").exists()


def read_pass_at_1_curve(run: Path) -> Curve:
    """Return pass@1 of each evaluated step of a run."""
    return [(line["step"], round(line[PASSED], 4)) for line in read_metrics(run) if line.get(PASSED) is not None]


def plot_curves(axes: Any, curves: Iterable[Curve], *, color: str, **line: Any) -> None:
    """Draw the mean of the curves, with a band from the lowest to the highest."""
    points = list(zip(*curves, strict=True))
    steps = [together[0][0] for together in points]
    values = [[value for _, value in together] for together in points]
    axes.fill_between(steps, list(map(min, values)), list(map(max, values)), color=color, alpha=0.15, linewidth=0)
    axes.plot(steps, list(map(fmean, values)), color=color, **line)
    axes.set(xlabel="step (256 completions)", ylim=(0, 1))
    axes.grid(alpha=0.3)


def save_plot(figure: Any, path: Path) -> None:
    """Write a figure as SVG; equal figures give equal files."""
    figure.tight_layout()
    with matplotlib.rc_context({"svg.hashsalt": "curate"}):
        figure.savefig(path, metadata={"Date": None})
