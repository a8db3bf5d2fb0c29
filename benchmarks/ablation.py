"""The effect of staleness on a tiny model, with the decoupled objective and with the naive one.

    python -m benchmarks.ablation      # all missing runs: two objectives, five bounds, three seeds

Problems, model and settings are those of `make learn`, which must have run for the same seeds. The engine samples all
groups within the bound concurrently, so each group is trained on `staleness` updates after its dispatch. The benchmark
also writes docs/staleness.svg.
"""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.record import ROOT, describe_machine, save_results
from benchmarks.tiny_training import (
    LEARN,
    VLLM_ON_CPU,
    Curve,
    has_model,
    make_seed_settings,
    make_train_command,
    plot_curves,
    read_pass_at_1_curve,
    save_plot,
)

SEEDS = (0, 1, 2)
STALENESS_BOUNDS = (0, 1, 2, 4, 8)
COMPLETIONS = 256  # in a batch of grpo_plus.toml
OBJECTIVES = {
    "naive": ["objective.old=sampler"],
    "decoupled": ["objective.old=learner", "objective.truncation=2.0"],
}
# `curate train` rejects stale completions without a correction; the benchmark shows why.
_UNCHECKED = (
    "from train.config import checks; checks.check_config = lambda config: None; "
    "from curate.commands.main import main; main()"
)
_LABELS = {"naive": "naive: ratio to the sampler's probabilities", "decoupled": "decoupled (AReaL)"}
_COLORS = ("#222222", "#1f5fa8", "#2a9d6f", "#c77d1a", "#b03a3a")  # by bound


def train(objective: str, bound: int, seed: int) -> Path:
    """Train unless the run is complete, and return its folder."""
    folder = ROOT / "runs" / "ablation" / f"seed-{seed}" / f"{objective}-{bound}"
    if has_model(folder):
        return folder
    if not (LEARN / f"seed-{seed}" / "band").exists():
        sys.exit(f"seed {seed} has no problems and no model yet; type: make learn SEED={seed}")
    print(f"{objective}, staleness {bound}, seed {seed}", flush=True)
    settings = [
        *make_seed_settings(seed),
        f"evaluation.dataset={LEARN / 'data' / 'held_out'}",
        "rollout.pipeline=async",
        f"rollout.staleness={bound}",
        f"engine.concurrency={(bound + 1) * COMPLETIONS}",
        "objective.by_std=false",
        *OBJECTIVES[objective],
    ]
    command = make_train_command(folder, settings, start=("-c", _UNCHECKED))
    subprocess.run(command, cwd=ROOT, env={**os.environ, **VLLM_ON_CPU}, check=True)
    return folder


def plot_results(results: dict[str, dict[str, dict[str, Curve]]]) -> None:
    figure = Figure(figsize=(9, 3.8))
    panels = figure.subplots(1, len(OBJECTIVES), sharey=True)
    for axes, (objective, by_bound) in zip(panels, results.items(), strict=True):
        for color, (bound, by_seed) in zip(_COLORS, by_bound.items(), strict=True):
            plot_curves(axes, by_seed.values(), color=color, label=f"staleness {bound}")
        axes.set_title(_LABELS[objective])
    panels[0].set_ylabel("pass@1 on held-out problems")
    panels[-1].legend(frameon=False, title="mean of the seeds; bands: lowest to highest", fontsize=8)
    save_plot(figure, ROOT / "docs" / "staleness.svg")


def main() -> None:
    results: dict[str, dict[str, dict[str, Curve]]] = {
        objective: {str(bound): {} for bound in STALENESS_BOUNDS} for objective in OBJECTIVES
    }
    for seed, bound, objective in product(SEEDS, STALENESS_BOUNDS, OBJECTIVES):
        results[objective][str(bound)][str(seed)] = read_pass_at_1_curve(train(objective, bound, seed))
    save_results("ablation", {"machine": describe_machine(), "steps": 50, "results": results})
    plot_results(results)


if __name__ == "__main__":
    main()
