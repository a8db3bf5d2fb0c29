"""The best split of GPUs between learner and engines: every sensible split is simulated.

`model_size`, `build_workload` and `build_cluster` derive from a configuration what the simulation takes.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from train.config import Config
from train.errors import ConfigError, LearnerError
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
from train.run.memory import cache_bytes_per_token, estimate, estimate_run, gpu_memory

MODES = (SYNC, ONE_OFF, *(TrainingMode("async", staleness) for staleness in (1, 2, 4, 8)))
# Mean length of answers over the limit; DeepCoder's 14B: 8K of 32K at its start, 17.5K at its end.
_DEFAULT_MEAN_SHARE = 0.3
_MEMORY_SHARE = 0.9  # of a GPU's memory that the learner can use
_PROMPT_TOKENS = 500
_UNITS = 512  # tokens of the longest answer in a message, at most, unless answers are short on average
_UNITS_OF_MEAN = 16  # tokens of an answer of mean length in a message, at least; they are rounded up
_SHARES = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8)  # of the GPUs, for the learner


@dataclass(frozen=True, slots=True)
class GpuCluster:
    """The GPUs of a run."""

    gpu: Gpu
    gpus: int
    tensor_parallel: int = 1  # GPUs of one engine
    min_learner_gpus: int = 1  # the learner's state does not fit on fewer
    learner_multiple: int = 1  # the number of the learner's GPUs is a multiple of this


@dataclass(frozen=True, slots=True)
class GpuSplit:
    """A way of training and a division of the GPUs, with what the simulation measured."""

    mode: TrainingMode
    learner_gpus: int
    engines: int
    result: SimulationResult


def best_split(
    mode: TrainingMode, model: ModelSize, cluster: GpuCluster, workload: Workload, *, steps: int = 6
) -> GpuSplit | None:
    """Return the fastest split, or None if the GPUs are too few for this way."""
    splits = []
    for learner_gpus, engines in candidate_splits(mode, cluster):
        engine = estimate_engine_timings(model, cluster.gpu, gpus=cluster.tensor_parallel)
        learner = estimate_learner_timings(model, cluster.gpu, gpus=learner_gpus)
        result = simulate(mode, workload, Layout(engines, engine, learner), steps=steps)
        splits.append(GpuSplit(mode, learner_gpus, engines, result))
    return max(splits, key=lambda split: split.result.tokens_per_second, default=None)


def candidate_splits(mode: TrainingMode, cluster: GpuCluster) -> Iterator[tuple[int, int]]:
    """Yield (GPUs of the learner, number of engines)."""
    multiple = cluster.learner_multiple
    if mode.pipeline == "sync":  # both use all of them, in turns
        if cluster.gpus >= max(cluster.min_learner_gpus, cluster.tensor_parallel):
            yield cluster.gpus // multiple * multiple, cluster.gpus // cluster.tensor_parallel
        return
    wanted = (max(round(cluster.gpus * share), cluster.min_learner_gpus) for share in _SHARES)
    for learner_gpus in sorted({-(-number // multiple) * multiple for number in wanted}):
        engines = (cluster.gpus - learner_gpus) // cluster.tensor_parallel
        if engines > 0:
            yield learner_gpus, engines


def model_size(config: Config) -> ModelSize:
    """Return the size of the run's model. Raises LearnerError if the model cannot be found."""
    memory = estimate(config.model, row_tokens=1, reference=False)
    text_config = load_hf_config(config.model.path).get_text_config()
    return ModelSize(memory.parameters, float(cache_bytes_per_token(text_config, 2)))


def build_workload(config: Config, *, mean_tokens: float | None, sigma: float, rejected_share: float) -> Workload:
    """Return the batches of the run's last stage. Raises ConfigError for a mean that its limit does not allow.

    mean_tokens     of the answers; None: three tenths of the limit
    sigma           standard deviation of the logarithm of their lengths
    rejected_share  share of the groups that teach nothing
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
        token_stride=max(1, min(-(-limit // _UNITS), int(lengths.mean / _UNITS_OF_MEAN))),
    )


def build_cluster(config: Config, gpu: Gpu, gpus: int) -> GpuCluster:
    """Return how the GPUs can be divided: the learner needs so many that its weights, moments and longest row fit.

    Raises LearnerError if it does not fit on all of them.
    """

    def fits(ranks: int) -> bool:
        needed = gpu_memory(estimate_run(config, ranks=ranks), offload=config.optimizer.offload)
        return needed.total <= _MEMORY_SHARE * gpu.memory

    numbers = range(config.ranks.context, gpus + 1, config.ranks.context)
    place = bisect_left(numbers, True, key=fits)
    if place < len(numbers):
        return GpuCluster(gpu, gpus, config.engine.tensor_parallel, numbers[place], config.ranks.context)
    raise LearnerError(
        f"the learner does not fit on {gpus} x {gpu.name}. Use more GPUs, lower optimizer.row_tokens, or set "
        "model.activation_checkpointing or optimizer.offload"
    )
