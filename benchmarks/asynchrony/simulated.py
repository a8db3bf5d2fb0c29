"""The speed and the staleness of each pipeline at 8 to 512 GPUs, simulated as `curate plan` does.

    python -m benchmarks.asynchrony.simulated     # half an hour on one core; finished parts are kept

The figures and where they come from:

  batches of 128 x 16 answers; 1.5B: 9,000 tokens on average and at most 32K; 14B, two GPUs for each engine: 12,000
  lengths with a heavy tail (log-normal, sigma 0.9), as AReaL (arXiv:2505.24298) and DeepCoder describe them; the mean
  of DeepCoder's answers grew from 8K to 17.5K tokens, under limits of 16K and 32K
  GPU, engine, learner and rewards: train/planning/engine.py and simulate.py

AReaL measures 2.77 times the speed of synchronous training for a 1.5B on 128 H800, with a staleness of 4 or more, and
12 to 17% from interrupting answers. It writes results/asynchrony.json.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from train.planning.engine import H100, ModelSize, estimate_engine_timings, estimate_learner_timings
from train.planning.simulate import Layout, LogNormalLengths, TrainingMode, Workload, simulate
from train.planning.split import MODES, GpuCluster, GpuSplit, best_split

RESULTS = Path(__file__).parents[1] / "results" / "asynchrony.json"
SMALL = ModelSize(1.54e9, 2 * 28 * 2 * 128 * 2)  # Qwen2.5-1.5B: layers, key heads, width of a head
LARGE = ModelSize(14.8e9, 2 * 48 * 8 * 128 * 2)  # Qwen2.5-14B
GPUS = (8, 32, 128, 512)
NOT_INTERRUPTED = TrainingMode("async", 4, interrupts=False)
GROWTH = ((4_000, 16_384), (8_000, 16_384), (17_500, 32_768))  # mean length, limit
SEEDS = (0, 1, 2)


def workload(mean_tokens: int, limit: int = 32_768) -> Workload:
    return Workload(128, 16, 500, LogNormalLengths.with_mean(mean_tokens, limit=limit))


def cases() -> Iterator[tuple[str, ModelSize, GpuCluster, Workload, TrainingMode]]:
    """Yield each simulation with a name that identifies it."""
    for gpus in GPUS:
        for way in (*MODES, NOT_INTERRUPTED):
            yield f"1.5B, {gpus} GPUs, {way}", SMALL, GpuCluster(H100, gpus), workload(9_000), way
        for way in MODES[:-1]:
            large = GpuCluster(H100, gpus, tensor_parallel=2, min_learner_gpus=min(4, gpus // 2))
            yield f"14B, {gpus} GPUs, {way}", LARGE, large, workload(12_000), way
    for mean, limit in GROWTH:
        for way in MODES[:-1]:
            grown = GpuCluster(H100, 32, tensor_parallel=2, min_learner_gpus=4)
            yield f"14B, 32 GPUs, mean {mean}, {way}", LARGE, grown, workload(mean, limit), way


def measured(split: GpuSplit, model: ModelSize, cluster: GpuCluster, work: Workload) -> dict[str, Any]:
    """Return the split with the seconds of a step for each seed."""
    layout = Layout(
        split.engines,
        estimate_engine_timings(model, cluster.gpu, gpus=cluster.tensor_parallel),
        estimate_learner_timings(model, cluster.gpu, gpus=split.learner_gpus),
    )
    others = [simulate(split.mode, work, layout, seed=seed).step_seconds for seed in SEEDS[1:]]
    return {
        "learner_gpus": split.learner_gpus,
        "engines": split.engines,
        "step_seconds": [round(seconds, 1) for seconds in (split.result.step_seconds, *others)],
        "outcome": {name: round(value, 4) for name, value in asdict(split.result).items()},
    }


def main() -> None:
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    done = found.setdefault("simulated", {})
    for name, model, cluster, work, way in cases():
        if name in done:
            continue
        split = best_split(way, model, cluster, work)
        done[name] = None if split is None else measured(split, model, cluster, work)
        found["machine"] = describe()
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        if split is not None:
            print(name, done[name]["step_seconds"], flush=True)


if __name__ == "__main__":
    main()
