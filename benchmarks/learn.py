"""Measure the effect of `curate train` on a tiny model's pass@1 on held-out problems.

    python -m benchmarks.learn            # examples/learn/run.sh for three seeds, with comparisons: 40 minutes
    python -m benchmarks.learn --draw     # only read the results in runs/learn
    python -m benchmarks.learn --redraw   # only draw the curves that results/learn.json has

For comparison, each seed also has a run with plain GRPO and one with random rewards. If the model improves with random
rewards, too, that improvement does not come from the rewards.
The benchmark writes results/learn.json and docs/learn.svg.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib

from benchmarks.machine import describe
from train.run.metrics_log import read_metrics

matplotlib.use("svg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "learn.json"
FIGURE = ROOT / "docs" / "learn.svg"
RUNS = ROOT / "runs" / "learn"
SEEDS = (0, 1, 2)
NAMES = {"grpo_plus": "GRPO+", "grpo": "plain GRPO", "random": "GRPO+, random rewards"}  # as in the table
_COLOURS = {"grpo_plus": "#1f5fa8", "grpo": "#c77d1a", "random": "#888888"}
PASSED = "eval/pass@1"

Curve = list[tuple[int, float]]


def seconds_of(seed: int) -> dict[str, float]:
    """Run the missing runs, and return the seconds that `make learn` took, without the runs for comparison.

    Return nothing if some of this seed's runs already existed.
    """
    fresh = not (RUNS / f"seed-{seed}").exists()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    _run(seed)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall = time.monotonic() - began
    _run(seed, COMPARE="1")
    return {"wall": round(wall, 1), "cpu": round(cpu, 1)} if fresh else {}


def _run(seed: int, **more: str) -> None:
    environment = {**os.environ, "BIN": os.environ.get("BIN", ".venv/bin"), **more}
    subprocess.run(["examples/learn/run.sh", str(seed)], cwd=ROOT, env=environment, check=True)


def curve(run: Path) -> Curve:
    return [(line["step"], round(line[PASSED], 4)) for line in read_metrics(run) if line.get(PASSED) is not None]


def evaluated(seed: int) -> dict[str, float]:
    """Return the results of `curate evaluate` before and after training, with eight samples per problem."""
    found = {}
    for name, when in (("warm", "before"), ("grpo_plus", "after")):
        path = RUNS / f"seed-{seed}" / "evaluated" / f"{name}.json"
        if path.exists():
            found[when] = round(json.loads(path.read_text())["numbers"]["pass_at_1"], 4)
    return found


def read() -> dict[str, Any]:
    """Return the curves by name and seed, the models before and after, and the median duration of a step."""
    curves: dict[str, dict[str, Curve]] = {name: {} for name in NAMES}
    step_seconds = []
    for seed in SEEDS:
        for name in NAMES:
            run = RUNS / f"seed-{seed}" / name
            if found := curve(run):
                curves[name][str(seed)] = found
                step_seconds += [line["step_time"] for line in read_metrics(run) if "step_time" in line]
    ordered = sorted(step_seconds)
    models = {str(seed): found for seed in SEEDS if (found := evaluated(seed))}
    return {
        "curves": curves,
        "models": models,
        "median_step_seconds": round(ordered[len(ordered) // 2], 2) if ordered else None,
    }


def draw(curves: dict[str, dict[str, Curve]]) -> None:
    figure, axes = plt.subplots(figsize=(7, 3.8))
    for name, by_seed in curves.items():
        by_step = [dict(found) for found in by_seed.values()]
        at = [step for step in by_step[0] if all(step in known for known in by_step)]
        values = [[known[step] for known in by_step] for step in at]
        low, high = [min(of_step) for of_step in values], [max(of_step) for of_step in values]
        axes.fill_between(at, low, high, color=_COLOURS[name], alpha=0.2, linewidth=0)
        axes.plot(
            at,
            [fmean(of_step) for of_step in values],
            color=_COLOURS[name],
            linestyle="-" if name == "grpo_plus" else "--",
            label=NAMES[name],
        )
    axes.set(xlabel="step (256 answers)", ylabel="pass@1 on held-out problems", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, title="mean of three seeds; bands: lowest to highest seed")
    figure.tight_layout()
    plt.rcParams["svg.hashsalt"] = "curate"  # makes the file reproducible
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if "--redraw" in sys.argv[1:]:
        draw(before["curves"])
        return
    seconds = before.get("seconds", {})
    if "--draw" not in sys.argv[1:]:
        seconds = {str(seed): found for seed in SEEDS if (found := seconds_of(seed))}
    found = {"machine": describe(), "seconds": seconds, **read()}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    draw(found["curves"])
    for name, by_seed in found["curves"].items():
        for seed, known in by_seed.items():
            print(f"{NAMES[name]:<16} seed {seed}: " + " ".join(f"{step}: {value:.3f}" for step, value in known))
    last = [known[-1][1] for known in found["curves"]["grpo_plus"].values()]
    if last:
        print(f"mean at the end: {fmean(last):.3f}")


if __name__ == "__main__":
    main()
