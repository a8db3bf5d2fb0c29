"""The effect of `curate train` on a tiny model's pass@1 on held-out problems.

    python -m benchmarks.learn            # run examples/learn/run.sh for two seeds, with comparisons
    python -m benchmarks.learn --draw     # only read the results in runs/learn

Each seed also has a run with plain GRPO and one with random rewards. The benchmark also writes docs/learn.svg.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

from matplotlib.figure import Figure

from benchmarks.record import ROOT, describe_machine, load_results, save_results
from benchmarks.render.training import LEARN_LABELS
from benchmarks.tiny_training import LEARN, Curve, plot_curves, read_pass_at_1_curve, save_plot
from train.run.metrics_log import read_metrics

SEEDS = (0, 1)
_COLORS = {"grpo_plus": "#1f5fa8", "grpo": "#c77d1a", "random": "#888888"}


def run_seed(seed: int) -> dict[str, float]:
    """Execute the missing runs. Return the seconds of `make learn`, without comparisons; empty if a run existed."""
    is_new = not (LEARN / f"seed-{seed}").exists()
    began = time.monotonic()
    _run(seed)
    seconds = round(time.monotonic() - began, 1)
    _run(seed, COMPARE="1")
    return {"wall": seconds} if is_new else {}


def _run(seed: int, **variables: str) -> None:
    environment = {**os.environ, "BIN": os.environ.get("BIN", ".venv/bin"), **variables}
    subprocess.run(["examples/learn/run.sh", str(seed)], cwd=ROOT, env=environment, check=True)


def read_evaluations(seed: int) -> dict[str, float]:
    """Return pass@1 before and after training, by `curate evaluate` with eight samples per problem."""
    found = {}
    for name, when in (("warm", "before"), ("grpo_plus", "after")):
        path = LEARN / f"seed-{seed}" / "evaluated" / f"{name}.json"
        if path.exists():
            found[when] = round(json.loads(path.read_text())["numbers"]["pass_at_1"], 4)
    return found


def read_runs() -> dict[str, Any]:
    """Return the curves by name and seed, and pass@1 of the models before and after training."""
    curves: dict[str, dict[str, Curve]] = {name: {} for name in LEARN_LABELS}
    for seed in SEEDS:
        for name in LEARN_LABELS:
            if curve := read_pass_at_1_curve(read_metrics(LEARN / f"seed-{seed}" / name)):
                curves[name][str(seed)] = curve
    return {"curves": curves, "models": {str(seed): found for seed in SEEDS if (found := read_evaluations(seed))}}


def draw(curves: dict[str, dict[str, Curve]]) -> None:
    figure = Figure(figsize=(7, 3.8))
    axes = figure.subplots()
    for name, by_seed in curves.items():
        style = "-" if name == "grpo_plus" else "--"
        plot_curves(axes, by_seed.values(), color=_COLORS[name], linestyle=style, label=LEARN_LABELS[name])
    axes.set_ylabel("pass@1 on held-out problems")
    axes.legend(frameon=False, title="mean of the seeds; bands: lowest to highest seed")
    save_plot(figure, ROOT / "docs" / "learn.svg")


def main() -> None:
    seconds = load_results("learn").get("seconds", {})
    if "--draw" not in sys.argv[1:]:
        seconds |= {str(seed): found for seed in SEEDS if (found := run_seed(seed))}
    results = {"machine": describe_machine(), "seconds": seconds, **read_runs()}
    save_results("learn", results)
    draw(results["curves"])


if __name__ == "__main__":
    main()
