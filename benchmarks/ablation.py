"""Measure the effect of staleness on a tiny model, with the decoupled objective and with the naive one.

    python -m benchmarks.ablation              # all runs that are missing: two objectives, five bounds, three seeds
    python -m benchmarks.ablation --most 4     # at most four of them; the next call continues
    python -m benchmarks.ablation --draw       # only read the results in runs/ablation
    python -m benchmarks.ablation --trial      # one short test run, without results

The problems, the model and the settings are those of `make learn`, which must have run for the same seeds. Each run is
asynchronous; only the bound and the objective differ. To reach the staleness on two cores, the engine samples all
groups within the bound at once: each group is trained on `staleness` updates after its dispatch, and every update
interrupts it. The results have the mean staleness reached.

The benchmark writes results/ablation.json and docs/staleness.svg.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib

from benchmarks.machine import VLLM_ON_CPU, describe
from train.run.metrics_log import read_metrics

matplotlib.use("svg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "ablation.json"
FIGURE = ROOT / "docs" / "staleness.svg"
LEARN, RUNS = ROOT / "runs" / "learn", ROOT / "runs" / "ablation"
CONFIG = ROOT / "examples" / "learn" / "grpo_plus.toml"
SEEDS = (0, 1, 2)
BOUNDS = (0, 1, 2, 4, 8)
ANSWERS = 256  # in a batch of grpo_plus.toml
PASSED = "eval/pass@1"
OBJECTIVES = {
    "naive": ["objective.old=sampler"],
    "decoupled": ["objective.old=learner", "objective.truncation=2.0"],
}
# `curate train` refuses stale answers without a correction; the benchmark shows why.
_UNCHECKED = (
    "from train.config import checks; checks.check_config = lambda config: None; "
    "from curate.commands.main import main; main()"
)
_AVERAGED = ("staleness/mean", "groups/age_mean", "answers/spans", "mismatch/kl", "entropy", "step_time")
_LABELS = {"naive": "naive: ratio to the sampler's probabilities", "decoupled": "decoupled (AReaL)"}
_COLOURS = {0: "#222222", 1: "#1f5fa8", 2: "#2a9d6f", 4: "#c77d1a", 8: "#b03a3a"}


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the ablation."""

    objective: str
    bound: int
    seed: int

    @property
    def folder(self) -> Path:
        return RUNS / f"seed-{self.seed}" / f"{self.objective}-{self.bound}"

    @property
    def is_finished(self) -> bool:
        return (self.folder / "model" / "config.json").exists()

    def train(self, *changes: str, folder: Path | None = None) -> None:
        """Run `curate train`, which resumes an interrupted run."""
        made_by_learn = LEARN / f"seed-{self.seed}"
        settings = [
            f"model.path={made_by_learn / 'warm'}",
            f"data.dataset={made_by_learn / 'band'}",
            f"evaluation.dataset={LEARN / 'data' / 'held_out'}",
            f"run.seed={self.seed}",
            "rollout.pipeline=async",
            f"rollout.staleness={self.bound}",
            f"engine.concurrency={(self.bound + 1) * ANSWERS}",
            "objective.by_std=false",
            *OBJECTIVES[self.objective],
            *changes,
        ]
        command = [sys.executable, "-W", "ignore", "-c", _UNCHECKED, "train", str(CONFIG), "--resume"]
        command += ["--out", str(folder or self.folder)]
        for setting in settings:
            command += ["--set", setting]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **VLLM_ON_CPU}, check=True)

    def read(self) -> dict[str, Any]:
        """Return pass@1 by step, the maximal staleness, and the means of staleness and mismatch metrics."""
        lines = read_metrics(self.folder)
        trained = [line for line in lines if line["step"]]
        return {
            "pass@1": [[line["step"], round(line[PASSED], 4)] for line in lines if line.get(PASSED) is not None],
            **{
                name: round(fmean(line[name] for line in trained if line.get(name) is not None), 4)
                for name in _AVERAGED
            },
            "staleness/max": max(line["staleness/max"] for line in trained),
        }


def trials() -> Iterator[Trial]:
    """Yield all runs, seed by seed, so that an interrupted benchmark has complete seeds."""
    for seed in SEEDS:
        for bound in BOUNDS:
            for objective in OBJECTIVES:
                yield Trial(objective, bound, seed)


def read() -> dict[str, Any]:
    """Return the results of the finished runs by objective, bound and seed."""
    found: dict[str, Any] = {objective: {str(bound): {} for bound in BOUNDS} for objective in OBJECTIVES}
    for trial in trials():
        if trial.is_finished:
            found[trial.objective][str(trial.bound)][str(trial.seed)] = trial.read()
    return found


def draw(found: dict[str, Any]) -> None:
    figure, all_axes = plt.subplots(1, len(OBJECTIVES), figsize=(9, 3.8), sharey=True)
    for axes, (objective, by_bound) in zip(all_axes, found.items(), strict=True):
        for bound, by_seed in by_bound.items():
            curves = [dict(map(tuple, result["pass@1"])) for result in by_seed.values()]
            at = [step for step in (curves[0] if curves else ()) if all(step in curve for curve in curves)]
            if not at:
                continue
            values = [[curve[step] for curve in curves] for step in at]
            colour = _COLOURS[int(bound)]
            low, high = [min(of_step) for of_step in values], [max(of_step) for of_step in values]
            axes.fill_between(at, low, high, color=colour, alpha=0.12, linewidth=0)
            axes.plot(at, [fmean(of_step) for of_step in values], color=colour, label=f"staleness {bound}")
        axes.set(xlabel="step (256 answers)", ylim=(0, 1), title=_LABELS[objective])
        axes.grid(alpha=0.3)
    all_axes[0].set_ylabel("pass@1 on held-out problems")
    all_axes[-1].legend(frameon=False, title="mean of the seeds; bands: lowest to highest", fontsize=8)
    figure.tight_layout()
    plt.rcParams["svg.hashsalt"] = "curate"  # makes the file reproducible
    figure.savefig(FIGURE, metadata={"Date": None})


def table(found: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each objective and bound: final pass@1 by seed, and the staleness reached."""
    for objective, by_bound in found.items():
        for bound, by_seed in by_bound.items():
            if by_seed:
                last = [result["pass@1"][-1][1] for result in by_seed.values()]
                of_seeds = ", ".join(f"{value:.3f}" for value in last)
                reached = fmean(result["staleness/mean"] for result in by_seed.values())
                ages = fmean(result["groups/age_mean"] for result in by_seed.values())
                yield (
                    f"{objective:<10} staleness {bound}: pass@1 {fmean(last):.3f} ({of_seeds}), "
                    f"tokens {reached:.2f} and groups {ages:.2f} updates old in the mean"
                )


def short_trial() -> None:
    """Make one short run, to check that the benchmark works and reaches its staleness."""
    folder = RUNS / "trial"
    shutil.rmtree(folder, ignore_errors=True)
    Trial("decoupled", 2, 0).train("run.steps=8", "evaluation.every_steps=8", folder=folder)
    for line in read_metrics(folder)[1:]:
        tokens, groups = line["staleness/mean"], line["groups/age_mean"]
        print(f"step {line['step']}: tokens {tokens:.2f}, groups {groups:.2f} updates old")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=len(list(trials())), help="runs to make in this call")
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--trial", action="store_true")
    options = parser.parse_args()
    if options.trial:
        short_trial()
        return
    missing = [] if options.draw else [trial for trial in trials() if not trial.is_finished]
    for trial in missing[: options.most]:
        if not (LEARN / f"seed-{trial.seed}" / "band").exists():
            sys.exit(f"seed {trial.seed} has no problems and no model yet; type: make learn SEED={trial.seed}")
        print(f"{trial.objective}, staleness {trial.bound}, seed {trial.seed}", flush=True)
        trial.train()
    found = read()
    RESULTS.write_text(json.dumps({"machine": describe(), "steps": 50, "results": found}, indent=1) + "\n")
    draw(found)
    for line in table(found):
        print(line)


if __name__ == "__main__":
    main()
