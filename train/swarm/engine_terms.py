"""Conditions on the engine and on the sampling of a run, before a swarm works for it.

The settings of a swarm name options of vLLM, and some of those load code: a node takes none but the ones listed here.
Others are for its owner to give.
"""

import json
from pathlib import Path

from train.errors import ConfigError
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import SamplingParams

# Sizes, precision and speed. No option that names code, a file, a format or another model.
_ALLOWED_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "async_scheduling": bool,
    "block_size": int,
    "cpu_offload_gb": (int, float),
    "dtype": str,
    "enable_chunked_prefill": bool,
    "enable_prefix_caching": bool,
    "enforce_eager": bool,
    "gpu_memory_utilization": (int, float),
    "hf_overrides": dict,
    "kv_cache_dtype": str,
    "max_model_len": int,
    "max_num_batched_tokens": int,
    "max_num_seqs": int,
    "quantization": str,
    "seed": int,
    "tensor_parallel_size": int,
}
_ALLOWED_OVERRIDES = {"head_dtype": ("model", "float32")}


def check_engine_options(spec: EngineSpec) -> None:
    """Raise ConfigError unless the options of the engine are some that a coordinator may choose for a node."""
    for name, value in spec.vllm.items():
        if name not in _ALLOWED_OPTIONS or not isinstance(value, _ALLOWED_OPTIONS[name]):
            raise ConfigError(
                f"a swarm does not set the engine option {name[:60]} = {value!r:.60}. Leave it out of engine.options "
                "in the run's configuration; the owner of a node can give it with --engine"
            )
    for name, value in spec.vllm.get("hf_overrides", {}).items():
        if value not in _ALLOWED_OVERRIDES.get(name, ()):
            raise ConfigError(
                f"a swarm does not set hf_overrides.{name!s:.60} = {value!r:.60}. Leave it out of engine.options in "
                "the run's configuration"
            )


def is_verifiable(params: SamplingParams) -> bool:
    """Return whether somebody else can repeat how tokens are drawn."""
    return params.temperature > 0 and params.top_p == 1 and not params.stop


def check_sampling(spec: EngineSpec) -> None:
    """Raise ConfigError if the run asks its workers for samples that nobody can verify."""
    for params in spec.sampling:
        if not is_verifiable(params):
            raise ConfigError(
                f"nodes cannot sample what this run asks for: temperature {params.temperature:g} and top_p "
                f"{params.top_p:g} cannot be verified. In its configuration, set evaluation.temperature above 0 and "
                'evaluation.top_p = 1, or evaluation.where = "own"; then continue it with --resume'
            )


def read_vocab_size(model: str) -> int:
    """Return the number of token ids of a model on this machine. Raises ConfigError if that cannot be found out."""
    path = Path(model).expanduser() / "config.json"
    try:
        config = json.loads(path.read_bytes())
        return int(config.get("vocab_size") or config["text_config"]["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cannot read the size of the vocabulary of {model}: {error!r}. Give it: --vocabulary NUMBER"
        ) from None
