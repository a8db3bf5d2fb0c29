"""AReaL's published speeds compared with the simulation of `curate plan`:  python -m benchmarks.asynchrony.published

The runs are those of table 1 (arXiv:2505.24298). Batches have 512 x 16 completions of at most 27,648 tokens in 4
minibatches. A quarter of the H800 GPUs train. The staleness bound is 8 for mathematics and 4 for code. The lengths of
completions are not published. Table 1 (590 s) and figure 5c (128,700 tokens/s) give 9,270 tokens for the 1.5B, prompts
included; this is assumed for mathematics, and 12,000 for code.
"""

from typing import Any

from benchmarks.model_sizes import load_qwen2_5_size
from benchmarks.record import load_results, save_results
from train.planning.engine import H100, estimate_engine_timings, estimate_learner_timings
from train.planning.simulate import SYNC, Layout, LogNormalLengths, TrainingMode, Workload, simulate

# GPUs, GPUs of an engine, mean length, bound, steps, hours of synchronous and of asynchronous training.
_AREAL = {
    "1.5B": (128, 1, 9_000, 8, 250, 41.0, 14.8),
    "7B": (192, 1, 9_000, 8, 250, 57.7, 25.4),
    "14B": (256, 2, 12_000, 4, 80, 48.8, 21.9),
    "32B": (384, 8, 12_000, 4, 60, 51.1, 31.1),
}


def simulate_areal(name: str) -> dict[str, Any]:
    """Return the published and the simulated seconds of a step, synchronous and asynchronous.

    In an asynchronous run, a quarter of the GPUs train; in a synchronous one, all GPUs sample and train in turn.
    """
    gpus, tensor_parallel, mean, bound, steps, *hours = _AREAL[name]
    model = load_qwen2_5_size(name, minibatches=4)
    workload = Workload(512, 16, 270, LogNormalLengths.with_mean(mean, limit=27_648))
    simulated = []
    for mode in (SYNC, TrainingMode("async", bound)):
        learner_gpus = gpus if mode == SYNC else gpus // 4
        engine_gpus = gpus if mode == SYNC else gpus - learner_gpus
        layout = Layout(
            engine_gpus // tensor_parallel,
            estimate_engine_timings(model, H100, gpus=tensor_parallel),
            estimate_learner_timings(model, H100, gpus=learner_gpus),
        )
        simulated.append(round(simulate(mode, workload, layout).step_seconds, 1))
    published = [round(each * 3600 / steps, 1) for each in hours]
    return {"gpus": gpus, "bound": bound, "published_seconds": published, "simulated_seconds": simulated}


def main() -> None:
    published = {f"table 1, {name}": simulate_areal(name) for name in _AREAL}
    save_results("asynchrony", load_results("asynchrony") | {"published": published})


if __name__ == "__main__":
    main()
