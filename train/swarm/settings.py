"""The settings that all nodes of a swarm share, signed by the run and constant for its lifetime.

A swarm can only serve runs with verifiable samples. Some options of vLLM load code, so a node accepts only the options
listed here from a coordinator. Its owner may set others.
"""

import json
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct, field

from train.errors import ConfigError
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import SamplingParams
from train.swarm.signatures import BadSignature, append_signature, verify_and_unwrap
from train.swarm.verification.thresholds import Thresholds

_DOMAIN = "curate-settings-1"


class SwarmSettings(Struct, frozen=True):
    """The settings of a run for nodes and verifiers.

    run                name of the run, in paths and signatures
    vocab_size         upper bound (exclusive) of token ids
    thresholds         by the pair "engine/verifier", such as "vllm/transformers"; "" for all others
    check_seeds        whether verifiers replay the seeds
    lease_seconds      minimum time limit of a lease
    retained_versions  versions that verifiers hold; completions of older ones get the verdict "late"
    """

    run: str
    engine: EngineSpec = field(name="terms")
    vocab_size: int = field(name="vocabulary")
    thresholds: dict[str, Thresholds] = field(name="bars", default={})
    check_seeds: bool = field(name="replays", default=True)
    lease_seconds: float = 1800.0
    retained_versions: int = field(name="versions_kept", default=3)


def sign_settings(settings: SwarmSettings, key: Ed25519PrivateKey) -> bytes:
    """Encode the settings, signed with the key of the run."""
    return append_signature(_DOMAIN, msgspec.msgpack.encode(settings), key)


def read_settings(signed: bytes, run: str, public_key: bytes) -> SwarmSettings:
    """Decode settings. Raises BadSignature unless the run signed the settings, and MsgspecError."""
    settings = msgspec.msgpack.decode(verify_and_unwrap(_DOMAIN, signed, public_key), type=SwarmSettings)
    if settings.run != run:
        raise BadSignature(f"the signed settings are of {settings.run}, not of {run}")
    return settings


# Sizes, precision and speed; no option that loads code, a file, a format or another model.
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
    """Raise ConfigError unless a coordinator may set all of these engine options for a node."""
    for name, value in spec.vllm.items():
        if name not in _ALLOWED_OPTIONS or not isinstance(value, _ALLOWED_OPTIONS[name]):
            raise ConfigError(
                f"a swarm does not set the engine option {name[:60]} = {value!r:.60}. Remove it from engine.options in "
                "the run's configuration; the owner of a node can set it with --engine"
            )
    for name, value in spec.vllm.get("hf_overrides", {}).items():
        if value not in _ALLOWED_OVERRIDES.get(name, ()):
            raise ConfigError(
                f"a swarm does not set hf_overrides.{name!s:.60} = {value!r:.60}. Remove it from engine.options in "
                "the run's configuration"
            )


def is_verifiable(params: SamplingParams) -> bool:
    """Return whether a verifier can repeat the sampling."""
    return params.temperature > 0 and params.top_p == 1 and not params.stop


def check_sampling(spec: EngineSpec) -> None:
    """Raise ConfigError if the run's samples cannot be verified."""
    for params in spec.sampling:
        if not is_verifiable(params):
            raise ConfigError(
                f"nodes cannot sample for this run: temperature {params.temperature:g} and top_p "
                f"{params.top_p:g} cannot be verified. In its configuration, set evaluation.temperature above 0 and "
                'evaluation.top_p = 1, or evaluation.where = "own"; then continue it with --resume'
            )


def read_vocab_size(model: str) -> int:
    """Return the size of the vocabulary of a model on this machine. Raises ConfigError if it cannot be read."""
    path = Path(model).expanduser() / "config.json"
    try:
        config = json.loads(path.read_bytes())
        return int(config.get("vocab_size") or config["text_config"]["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cannot read the size of the vocabulary of {model}: {error!r}. Set it with --vocabulary NUMBER"
        ) from None
