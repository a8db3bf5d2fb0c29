"""The contribution of each ingredient of GRPO+ on a tiny model:  python -m benchmarks.ingredients

It executes all missing runs, three seeds of each, with as many runs at a time as there are cores.

The problems need a chain of thought (examples/learn/aloud.py). "Tight" runs limit completions to 32 tokens, too few
for three in four of the problems; "roomy" ones to 96, enough for all. Each run differs in one setting from the
baseline with the same seed and limit; effects are means of these differences. The benchmark also writes
docs/ablations.svg.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

from benchmarks.record import ROOT, describe_machine, save_results
from benchmarks.tiny_training import PASSED, VLLM_ON_CPU, has_model, make_train_command
from train.run.metrics_log import read_metrics

RUNS = ROOT / "runs" / "ingredients"
CONFIG = ROOT / "examples" / "learn" / "aloud.toml"
CURATE = str(Path(sys.executable).with_name("curate"))
SEEDS = (0, 1, 2)
BASELINE = "baseline"
ROOMY = ("stages.0.max_tokens=96",)
BAND = f"data.dataset={RUNS / 'band'}"
# Changed settings by length limit and name of the run.
VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "tight": {
        BASELINE: (),
        "truncated completions count": ("objective.overlong=none",),
        "truncated completions without advantage if wrong": ("objective.overlong=zero_advantage",),
        "truncated completions unknown": ("objective.overlong=unknown",),
        "truncated completions unknown, short to long": ("objective.overlong=unknown", "stages.0.until_step=15"),
        "short to long": ("stages.0.until_step=15",),
        "problems within the solve-rate band": (BAND,),
    },
    "roomy": {
        BASELINE: (),
        "entropy bonus 0.01": ("objective.entropy=0.01",),
        "entropy bonus 0.1": ("objective.entropy=0.1",),
        "equal clip bounds on both sides": ("objective.clip_high=0.2",),
        "dual clip at 4 for negative advantages": ("objective.delta=4",),
        "gradient clipped at 0.1": ("optimizer.clip_norm=0.1",),
        "KL 0.04": ("objective.kl=0.04",),
        "mean over sequences": ("objective.aggregation=sequence_mean",),
        "divided by the standard deviation": ("objective.by_std=true",),
        "no online filter": ("rollout.online_filter=false",),
        "problems within the solve-rate band": (BAND,),
    },
}
PLOT_LABELS = {  # of the plotted runs, which are tight
    BASELINE: "truncated completions excluded from the loss",
    "truncated completions count": "truncated completions count like all others",
    "truncated completions unknown": "truncated completions excluded from both",
    "short to long": "32 tokens, then 96",
}
_COLLAPSED_REWARD = 0.1  # a run with a lower last reward has collapsed: no completion is right


def run_command(*command: str) -> None:
    environment = {**os.environ, **VLLM_ON_CPU, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)


def train(trial: tuple[int, str, str]) -> Path:
    """Train unless the run of this seed, length limit and name is complete, and return its folder.

    A collapse ends the run with an error, and is a result. Raises CalledProcessError for other failures.
    """
    seed, limit, name = trial
    folder = RUNS / f"seed-{seed}" / f"{limit}: {name}"
    if has_model(folder) or has_collapsed(folder):
        return folder
    changes = (*(ROOMY if limit == "roomy" else ()), *VARIANTS[limit][name])
    config = CONFIG.read_text()
    if any(change.startswith("stages.0.until_step") for change in changes):
        config += "\n[[stages]]\nmax_tokens = 96\n"
    path = folder.with_name(f"{folder.name}.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config)
    settings = (
        f"run.seed={seed}",
        f"model.path={RUNS / 'warm'}",
        f"data.dataset={RUNS / 'data' / 'train'}",
        f"evaluation.dataset={RUNS / 'data' / 'held_out'}",
        *changes,
    )
    try:
        run_command(*make_train_command(folder, settings, path))
    except subprocess.CalledProcessError:
        if not has_collapsed(folder):
            raise
    print(f"{folder.name}, seed {seed}", flush=True)
    return folder


def has_collapsed(run: Path) -> bool:
    lines = read_metrics(run)
    return bool(lines) and lines[-1].get("reward", 1.0) < _COLLAPSED_REWARD


def read_run(run: Path) -> dict[str, float]:
    """Return the number of steps and metrics.

    last, mean  pass@1 after the last step, and the mean of all evaluations but the first
    entropy     mean over the last ten steps
    length      tokens of an evaluated completion
    tokens      thousands of tokens sampled
    grad_norm   largest norm of a gradient
    """
    lines = read_metrics(run)
    trained = [line for line in lines if line["step"]]
    scores = [line[PASSED] for line in lines if line.get(PASSED) is not None]
    metrics = {
        "steps": trained[-1]["step"],
        "last": scores[-1],
        "mean": fmean(scores[1:]),
        "entropy": fmean(line["entropy"] for line in trained[-10:]),
        "length": [line["eval/mean_length"] for line in lines if line.get("eval/mean_length") is not None][-1],
        "tokens": lines[-1]["num_tokens"] / 1000,
        "grad_norm": max(line["grad_norm"] for line in trained),
    }
    return {name: round(value, 4) for name, value in metrics.items()}


def prepare() -> None:
    """Write the problems, the model and the band of solve rates."""
    data = RUNS / "data"
    if not (RUNS / "warm" / "tokenizer.json").exists():
        run_command(sys.executable, "examples/learn/aloud.py", str(data / "raw"))
        for name in ("train", "held_out"):
            # All statements are similar, so only identical ones count as duplicates.
            source = f"generic={data / 'raw' / name}.toml"
            options = ("--mutants", "0", "--dedup", "1")
            run_command(CURATE, "build-dataset", "--source", source, "--out", str(data / name), *options)
        run_command(sys.executable, "examples/learn/warm_up.py", str(RUNS / "warm"), "--aloud", "--steps", "800")
    if not (RUNS / "band" / "manifest.json").exists():
        run_command(
            CURATE, "difficulty", str(data / "train"), "--model", str(RUNS / "warm"), "--k", "8", "--temperature", "1",
            "--top-p", "1", "--max-tokens", "32", "--solve-rate", "0.125:0.875", "--out", str(RUNS / "band"),
        )  # fmt: skip


def main() -> None:
    prepare()
    trials = [(seed, limit, name) for seed in SEEDS for limit, names in VARIANTS.items() for name in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = dict(zip(trials, pool.map(train, trials), strict=True))
    measured: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for (seed, limit, name), run in runs.items():
        measured.setdefault(limit, {}).setdefault(name, {})[str(seed)] = read_run(run)
    save_results("ingredients", {"machine": describe_machine(), "measured": measured})
    plotted = [f"{label}={runs[seed, 'tight', name]}" for seed in SEEDS for name, label in PLOT_LABELS.items()]
    run_command(CURATE, "plot", *plotted, "--out", str(ROOT / "docs" / "ablations.svg"))


if __name__ == "__main__":
    main()
