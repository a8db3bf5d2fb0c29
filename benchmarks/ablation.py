"""The effect of staleness on a tiny model, with the decoupled objective and with the naive one.

    python -m benchmarks.ablation              # all missing runs: two objectives, five bounds, three seeds
    python -m benchmarks.ablation --draw       # only read the results in runs/ablation

Problems, model and settings are those of `make learn`, which must have run for the same seeds. The engine samples all
groups within the bound concurrently, so each group is trained on `staleness` updates after its dispatch. The benchmark
also writes docs/staleness.svg.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from benchmarks.record import ROOT, describe_machine, save_results
from benchmarks.tiny_training import (
    LEARN,
    VLLM_ON_CPU,
    has_model,
    make_seed_settings,
    make_train_command,
    plot_curves,
    read_pass_at_1_curve,
    save_plot,
)
from train.run.metrics_log import read_metrics

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
_COLORS = {0: "#222222", 1: "#1f5fa8", 2: "#2a9d6f", 4: "#c77d1a", 8: "#b03a3a"}


@dataclass(frozen=True, slots=True)
class Trial:
    objective: str
    bound: int
    seed: int

    @property
    def folder(self) -> Path:
        return ROOT / "runs" / "ablation" / f"seed-{self.seed}" / f"{self.objective}-{self.bound}"

    def train(self) -> None:
        """Run `curate train`, which resumes an interrupted run."""
        settings = [
            *make_seed_settings(self.seed),
            f"evaluation.dataset={LEARN / 'data' / 'held_out'}",
            "rollout.pipeline=async",
            f"rollout.staleness={self.bound}",
            f"engine.concurrency={(self.bound + 1) * COMPLETIONS}",
            "objective.by_std=false",
            *OBJECTIVES[self.objective],
        ]
        command = make_train_command(self.folder, settings, start=("-c", _UNCHECKED))
        subprocess.run(command, cwd=ROOT, env={**os.environ, **VLLM_ON_CPU}, check=True)

    def read(self) -> dict[str, Any]:
        """Return pass@1 by step, and the mean staleness of tokens and of groups."""
        lines = read_metrics(self.folder)
        means = {
            name: round(fmean(line[name] for line in lines if line.get(name) is not None), 4)
            for name in ("staleness/mean", "groups/age_mean")
        }
        return {"pass@1": read_pass_at_1_curve(lines), **means}


def all_trials() -> Iterator[Trial]:
    """Yield all runs, seed by seed: an interrupted benchmark then has complete seeds."""
    for seed, bound, objective in product(SEEDS, STALENESS_BOUNDS, OBJECTIVES):
        yield Trial(objective, bound, seed)


def read_finished() -> dict[str, Any]:
    """Return the results of the finished runs by objective, bound and seed."""
    found: dict[str, Any] = {objective: {str(bound): {} for bound in STALENESS_BOUNDS} for objective in OBJECTIVES}
    for trial in all_trials():
        if has_model(trial.folder):
            found[trial.objective][str(trial.bound)][str(trial.seed)] = trial.read()
    return found


def draw(results: dict[str, Any]) -> None:
    figure = Figure(figsize=(9, 3.8))
    panels = figure.subplots(1, len(OBJECTIVES), sharey=True)
    for axes, (objective, by_bound) in zip(panels, results.items(), strict=True):
        for bound, by_seed in by_bound.items():
            curves = [result["pass@1"] for result in by_seed.values()]
            plot_curves(axes, curves, color=_COLORS[int(bound)], label=f"staleness {bound}")
        axes.set_title(_LABELS[objective])
    panels[0].set_ylabel("pass@1 on held-out problems")
    panels[-1].legend(frameon=False, title="mean of the seeds; bands: lowest to highest", fontsize=8)
    save_plot(figure, ROOT / "docs" / "staleness.svg")


def main() -> None:
    for trial in all_trials() if "--draw" not in sys.argv[1:] else ():
        if has_model(trial.folder):
            continue
        if not (LEARN / f"seed-{trial.seed}" / "band").exists():
            sys.exit(f"seed {trial.seed} has no problems and no model yet; type: make learn SEED={trial.seed}")
        print(f"{trial.objective}, staleness {trial.bound}, seed {trial.seed}", flush=True)
        trial.train()
    results = read_finished()
    save_results("ablation", {"machine": describe_machine(), "steps": 50, "results": results})
    draw(results)


if __name__ == "__main__":
    main()
