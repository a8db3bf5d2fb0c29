"""What the simulation has to know of a run: the size of its model, its batches, and how its GPUs can be divided."""

from bisect import bisect_left
from typing import Any

from train.config import Config
from train.errors import ConfigError, LearnerError
from train.learning.memory_estimate import estimate, estimate_run, gpu_memory
from train.learning.model.policy import load_hf_config
from train.planning.lengths import LogNormalLengths
from train.planning.simulate import Workload
from train.planning.split import GpuCluster
from train.planning.timings import Gpu, ModelSize

_DEFAULT_MEAN_SHARE = (
    0.3  # mean length of answers over the limit; DeepCoder's 14B: 8K of 32K at its start, 17.5K at its end
)
_MEMORY_SHARE = 0.9  # of a GPU's memory that the learner can use
_PROMPT_TOKENS = 500
_UNITS = 512  # tokens of the longest answer in a message, at most, unless answers are short on average
_UNITS_OF_MEAN = 16  # tokens of an answer of mean length in a message, at least; they are rounded up


def model_size(config: Config) -> ModelSize:
    """Return the size of the run's model. Raises LearnerError if the model cannot be found."""
    memory = estimate(config.model, row_tokens=1, reference=False)
    return ModelSize(memory.parameters, kv_bytes_per_token(load_hf_config(config.model.path).get_text_config()))


def kv_bytes_per_token(settings: Any) -> float:
    """Return the bytes of one token in an engine's cache, in half precision."""
    heads = int(settings.num_attention_heads)
    width = int(getattr(settings, "head_dim", None) or settings.hidden_size // heads)
    key_heads = int(getattr(settings, "num_key_value_heads", None) or heads)
    layers = int(settings.num_hidden_layers)
    return 2.0 * layers * key_heads * width * 2


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
    rollout = config.rollout
    prompt_tokens = min(_PROMPT_TOKENS, config.data.max_prompt_tokens)
    return Workload(
        rollout.prompts,
        rollout.completions,
        prompt_tokens,
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
