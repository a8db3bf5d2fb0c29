"""The speed of each pipeline on 8 to 512 GPUs, simulated as `curate plan` does.

    python -m benchmarks.asynchrony.simulated     # some minutes on one core; skips simulations that have results

Batches have 128 x 16 completions of at most 32K tokens, on average 9,000 for the 1.5B and 12,000 for the 14B. Engines
of the 14B have two GPUs. Lengths are log-normal with sigma 0.9: AReaL (arXiv:2505.24298) and DeepCoder describe a heavy
tail. The mean length of DeepCoder's completions grew from 8K to 17.5K tokens, under limits of 16K and 32K. All other
assumptions are those of train/planning/engine.py and simulate.py.
"""

from collections.abc import Iterator

from benchmarks.model_sizes import load_qwen2_5_size
from benchmarks.record import load_results, save_results
from train.planning.engine import H100, ModelSize
from train.planning.simulate import LogNormalLengths, TrainingMode, Workload
from train.planning.split import MODES, GpuCluster, find_best_split

GPUS = (8, 32, 128, 512)
NOT_INTERRUPTED = TrainingMode("async", 4, interrupts=False)
GROWTH = ((4_000, 16_384), (8_000, 16_384), (17_500, 32_768))  # mean length, limit


def make_workload(mean_tokens: int, limit: int = 32_768) -> Workload:
    return Workload(128, 16, 500, LogNormalLengths.with_mean(mean_tokens, limit=limit))


def make_cases() -> Iterator[tuple[str, ModelSize, GpuCluster, Workload, TrainingMode]]:
    """Yield the name and the arguments of each simulation."""
    small, large = load_qwen2_5_size("1.5B"), load_qwen2_5_size("14B")
    for gpus in GPUS:
        for mode in (*MODES, NOT_INTERRUPTED):
            yield f"1.5B, {gpus} GPUs, {mode}", small, GpuCluster(H100, gpus), make_workload(9_000), mode
        for mode in MODES[:-1]:
            cluster = GpuCluster(H100, gpus, tensor_parallel=2, min_learner_gpus=min(4, gpus // 2))
            yield f"14B, {gpus} GPUs, {mode}", large, cluster, make_workload(12_000), mode
    for mean, limit in GROWTH:
        for mode in MODES[:-1]:
            cluster = GpuCluster(H100, 32, tensor_parallel=2, min_learner_gpus=4)
            yield f"14B, 32 GPUs, mean {mean}, {mode}", large, cluster, make_workload(mean, limit), mode


def main() -> None:
    results = load_results("asynchrony")
    done = results.setdefault("simulated", {})
    for name, model, cluster, batches, mode in make_cases():
        if name in done:
            continue
        split = find_best_split(mode, model, cluster, batches)
        assert split is not None, name
        done[name] = {"outcome": {"step_seconds": round(split.result.step_seconds, 4)}}
        print(name, done[name])
        save_results("asynchrony", results)


if __name__ == "__main__":
    main()
