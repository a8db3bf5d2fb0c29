"""The speeds that AReaL and INTELLECT-2 published, compared with the simulation of `curate plan` for their runs.

    python -m benchmarks.asynchrony.published     # finished parts are kept

AReaL (arXiv:2505.24298): hours and steps of table 1. It trains on batches of 512 x 16 completions of at most 27,648
tokens, in 4 minibatches, on a quarter of the H800, with a staleness bound of 8 for mathematics and 4 for code. The
lengths of completions are not published. Table 1 (590 s) and figure 5c (128,700 tokens/s) give 9,270 tokens for the
1.5B, prompts included; this is assumed for mathematics, and 12,000 for code.

INTELLECT-2 (arXiv:2505.07291): 256 x 16 completions, 8 minibatches, KL, a staleness bound of 2; 14 minutes for a
broadcast, one each to upload and to verify a file, 22 from a broadcast to a whole batch, 22 to train on it; training :
inference = 1 : 4.5. The numbers of GPUs and the lengths of completions are not published; assumed are 16 and 72 H100,
and the length for which training takes 22 minutes.
"""

from dataclasses import replace
from typing import Any

from benchmarks.model_sizes import qwen2_5
from benchmarks.record import describe_machine, load_results, save_results
from train.planning.engine import H100, estimate_engine_timings, estimate_learner_timings
from train.planning.simulate import SYNC, Layout, LogNormalLengths, TrainingMode, Workload, simulate

# GPUs, GPUs of an engine, mean length, bound, steps, hours of synchronous and of asynchronous training.
_AREAL = {
    "1.5B": (128, 1, 9_000, 8, 250, 41.0, 14.8),
    "7B": (192, 1, 9_000, 8, 250, 57.7, 25.4),
    "14B": (256, 2, 12_000, 4, 80, 48.8, 21.9),
    "32B": (384, 8, 12_000, 4, 60, 51.1, 31.1),
}
_INTELLECT_GPUS = 16, 72  # learner, engines
_MINUTE = 60.0


def simulate_areal(name: str) -> dict[str, Any]:
    """Return table 1 of AReaL and the simulated seconds of a step, synchronous and asynchronous.

    In an asynchronous run, a quarter of the GPUs trains; in a synchronous one, all GPUs sample and train in turn.
    """
    gpus, tensor_parallel, mean, bound, steps, *hours = _AREAL[name]
    model = qwen2_5(name, minibatches=4)
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


def simulate_intellect_2() -> dict[str, Any]:
    learner_gpus, engine_gpus = _INTELLECT_GPUS
    model = qwen2_5("32B", minibatches=8, kl=0.001)
    learner = replace(estimate_learner_timings(model, H100, gpus=learner_gpus), publish_seconds=14 * _MINUTE)
    layout = Layout(engine_gpus // 4, estimate_engine_timings(model, H100, gpus=4), learner)

    def workload(mean: float) -> Workload:
        lengths = LogNormalLengths.with_mean(mean, limit=32_768)
        return Workload(256, 16, 500, lengths, reward_seconds=(1.9 * _MINUTE, 2 * _MINUTE, 2.1 * _MINUTE))

    mean = 4_600.0
    for _ in range(4):  # the length for which training takes 22 minutes
        alone = simulate(TrainingMode("async"), workload(mean), layout)
        train_seconds = alone.step_seconds * (1 - alone.learner_idle_share)
        mean *= 22 * _MINUTE / train_seconds
    minutes = {}
    for bound in (0, 1, 2):
        result = simulate(TrainingMode("async", bound), workload(mean), layout)
        minutes[bound] = round(result.step_seconds / _MINUTE, 1)
    return {"mean_tokens": round(mean), "step_minutes": minutes}


def main() -> None:
    results = load_results("asynchrony")
    done = results.setdefault("published", {})
    parts = {"INTELLECT-2": simulate_intellect_2}
    parts |= {f"table 1, {name}": lambda name=name: simulate_areal(name) for name in _AREAL}  # type: ignore[misc]
    for name, part in parts.items():
        if name not in done:
            done[name] = part()
            print(name, done[name])
            save_results("asynchrony", results | {"machine": describe_machine()})


if __name__ == "__main__":
    main()
