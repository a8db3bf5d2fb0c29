"""The effect of `curate train` on a tiny model's pass@1 on held-out problems:  python -m benchmarks.learn

examples/learn/run.sh, which skips finished parts, trains with two seeds. For comparison, each seed also has a run with
plain GRPO and one with random rewards. The benchmark also writes docs/learn.svg.
"""

import json
import os
import subprocess
import time

from matplotlib.figure import Figure

from benchmarks.record import ROOT, describe_machine, load_results, save_results
from benchmarks.render.training import LEARN_LABELS
from benchmarks.tiny_training import LEARN, Curve, plot_curves, read_pass_at_1_curve, save_plot

SEEDS = ("0", "1")
_COLORS = {"grpo_plus": "#1f5fa8", "grpo": "#c77d1a", "random": "#888888"}


def run_seed(seed: str) -> dict[str, float]:
    """Train with one seed. Return the seconds of `make learn`, without comparisons; empty if a run existed."""
    is_new = not (LEARN / f"seed-{seed}").exists()
    began = time.monotonic()
    subprocess.run(["examples/learn/run.sh", seed], cwd=ROOT, check=True)
    seconds = round(time.monotonic() - began, 1)
    subprocess.run(["examples/learn/run.sh", seed], cwd=ROOT, env={**os.environ, "COMPARE": "1"}, check=True)
    return {"wall": seconds} if is_new else {}


def read_evaluations(seed: str) -> dict[str, float]:
    """Return pass@1 before and after training, by `curate evaluate` with eight samples per problem."""
    found = {}
    for name, when in (("warm", "before"), ("grpo_plus", "after")):
        evaluation = json.loads((LEARN / f"seed-{seed}" / "evaluated" / f"{name}.json").read_text())
        found[when] = round(evaluation["numbers"]["pass_at_1"], 4)
    return found


def plot_results(curves: dict[str, dict[str, Curve]]) -> None:
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
    seconds |= {seed: found for seed in SEEDS if (found := run_seed(seed))}
    curves = {
        name: {seed: read_pass_at_1_curve(LEARN / f"seed-{seed}" / name) for seed in SEEDS} for name in LEARN_LABELS
    }
    models = {seed: read_evaluations(seed) for seed in SEEDS}
    save_results("learn", {"machine": describe_machine(), "seconds": seconds, "curves": curves, "models": models})
    plot_results(curves)


if __name__ == "__main__":
    main()
