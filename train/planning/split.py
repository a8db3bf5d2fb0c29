"""The search, by simulation, for the fastest split of GPUs between learner and engines.

`build_model_size`, `build_workload` and `build_cluster` derive the simulation's input from a configuration.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import ceil

from train.config import Config
from train.errors import ConfigError, LearnerError
from train.learning.flops import count_forward_flops, count_training_flops
from train.learning.policy import load_hf_config
from train.planning.engine import Gpu, ModelSize, estimate_engine_timings, estimate_learner_timings
from train.planning.simulate import (
    ONE_OFF,
    SYNC,
    Layout,
    LogNormalLengths,
    SimulationResult,
    TrainingMode,
    Workload,
    simulate,
)
from train.run.memory import (
    compute_token_cache_bytes,
    estimate_learner_memory,
    estimate_run_memory,
    exclude_offloaded_moments,
)

MODES = (SYNC, ONE_OFF, *(TrainingMode("async", staleness) for staleness in (1, 2, 4, 8)))
# Mean length of completions as a share of the limit. DeepCoder's 14B run began with 8K of 32K and ended with 17.5K.
_DEFAULT_MEAN_SHARE = 0.3
_MEMORY_SHARE = 0.9  # share of a GPU's memory that the learner can use
_PROMPT_TOKENS = 500
_MAX_SCALE, _MIN_ENGINES = 4, 8  # maximum factor of scaled-down simulations, and their minimum number of engines
_LEARNER_SHARES = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8)  # candidate shares of the GPUs for the learner


@dataclass(frozen=True, slots=True)
class GpuCluster:
    """The GPUs of a run, and the constraints on their split."""

    gpu: Gpu
    gpus: int
    tensor_parallel: int = 1  # GPUs of one engine
    min_learner_gpus: int = 1  # minimum number of GPUs that can hold the learner's state
    learner_multiple: int = 1  # number that must divide the number of learner GPUs


@dataclass(frozen=True, slots=True)
class GpuSplit:
    """A training mode and a split of the GPUs, with the simulation's result."""

    mode: TrainingMode
    learner_gpus: int
    engines: int
    result: SimulationResult


def find_best_split(mode: TrainingMode, model: ModelSize, cluster: GpuCluster, workload: Workload) -> GpuSplit | None:
    """Find the fastest split by hill climbing on scaled-down simulations, then simulate this split in full.

    Return None if the GPUs are too few for this mode.
    """
    splits = list(iterate_candidate_splits(mode, cluster))
    if not splits:
        return None
    engine = estimate_engine_timings(model, cluster.gpu, gpus=cluster.tensor_parallel)

    def build_layout(learner_gpus: float, engines: int) -> Layout:
        return Layout(engines, engine, estimate_learner_timings(model, cluster.gpu, gpus=learner_gpus))

    @cache
    def simulate_speed(index: int) -> float:
        learner_gpus, engines = splits[index]
        groups = ceil(workload.groups / min(_MAX_SCALE, max(1, engines // _MIN_ENGINES)))
        scale = groups / workload.groups
        small = build_layout(learner_gpus * scale, max(1, round(engines * scale)))
        return simulate(mode, replace(workload, groups=groups), small, max_cycles=1).tokens_per_second / scale

    fastest, before = min(1, len(splits) - 1), -1
    while fastest != before:
        before = fastest
        fastest = max(
            (index for index in (before, before - 1, before + 1) if 0 <= index < len(splits)), key=simulate_speed
        )
    return GpuSplit(mode, *splits[fastest], simulate(mode, workload, build_layout(*splits[fastest])))


def iterate_candidate_splits(mode: TrainingMode, cluster: GpuCluster) -> Iterator[tuple[int, int]]:
    """Yield each candidate split as (number of learner GPUs, number of engines)."""
    multiple = cluster.learner_multiple
    if mode.pipeline == "sync":  # learner and engines take turns on all GPUs
        if cluster.gpus >= max(cluster.min_learner_gpus, cluster.tensor_parallel):
            yield cluster.gpus // multiple * multiple, cluster.gpus // cluster.tensor_parallel
        return
    wanted = (max(round(cluster.gpus * share), cluster.min_learner_gpus) for share in _LEARNER_SHARES)
    for learner_gpus in sorted({-(-number // multiple) * multiple for number in wanted}):
        engines = (cluster.gpus - learner_gpus) // cluster.tensor_parallel
        if engines > 0:
            yield learner_gpus, engines


def build_model_size(config: Config) -> ModelSize:
    """Return the size of the run's model. Raises LearnerError if the model cannot be found.

    The training FLOPs of all pipelines include the forward pass for old log-probabilities, although only "async" needs
    it, so that the objective is the same.
    """
    memory = estimate_learner_memory(config.model, row_tokens=1, reference=False)
    hf_config = load_hf_config(config.model.path)
    forward = count_forward_flops(hf_config)
    decoupled = replace(config, objective=replace(config.objective, old="learner"))
    return ModelSize(
        memory.parameters,
        float(compute_token_cache_bytes(hf_config.get_text_config(), 2)),
        forward,
        count_training_flops(forward, decoupled, recomputed=True),
    )


def build_workload(config: Config, *, mean_tokens: float | None, sigma: float, rejected_share: float) -> Workload:
    """Build the workload of the run's longest stage. Raises ConfigError for a mean above the token limit.

    mean_tokens     mean length of a completion; None: three tenths of the limit
    sigma           standard deviation of the logarithm of the lengths
    rejected_share  share of groups without a signal
    """
    limit = max(stage.max_tokens for stage in config.stages)
    try:
        lengths = LogNormalLengths.with_mean(mean_tokens or _DEFAULT_MEAN_SHARE * limit, sigma=sigma, limit=limit)
    except ValueError as error:
        raise ConfigError(f"--mean-tokens: {error}") from error
    return Workload(
        config.rollout.prompts,
        config.rollout.completions,
        min(_PROMPT_TOKENS, config.data.max_prompt_tokens),
        lengths,
        rejected_share,
    )


def build_cluster(config: Config, gpu: Gpu, gpus: int) -> GpuCluster:
    """Build the cluster, with the minimum number of GPUs that hold the learner's weights, moments and longest row.

    Raises LearnerError if the learner does not fit on all GPUs.
    """

    def fits(ranks: int) -> bool:
        needed = exclude_offloaded_moments(estimate_run_memory(config, ranks=ranks), offload=config.optimizer.offload)
        return needed.total <= _MEMORY_SHARE * gpu.memory

    numbers = range(config.ranks.context, gpus + 1, config.ranks.context)
    index = bisect_left(numbers, True, key=fits)
    if index < len(numbers):
        return GpuCluster(gpu, gpus, config.engine.tensor_parallel, numbers[index], config.ranks.context)
    raise LearnerError(
        f"the learner does not fit on {gpus} x {gpu.name}. Use more GPUs, lower optimizer.row_tokens, or set "
        "model.activation_checkpointing or optimizer.offload"
    )
