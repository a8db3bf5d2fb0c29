"""What all nodes of a swarm have to agree on. The run signs it, and it never changes while the run lives.

A swarm can only work for runs whose samples can be verified. Its settings name options of vLLM, and some of those load
code: a node takes none but the ones listed here. Others are for its owner to give.
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
    """What a node and a verifier need to know of a run.

    run                its name, in paths and signatures
    engine             how engines have to be started
    vocab_size         token ids are below this number
    thresholds         by the name of the pair "engine/verifier", such as "vllm/transformers"; "" for all others
    check_seeds        whether tokens are checked by replaying the seeds
    lease_seconds      a lease runs out after this time, whatever its node says
    retained_versions  versions that verifiers hold; older answers are late
    """

    run: str
    engine: EngineSpec = field(name="terms")
    vocab_size: int = field(name="vocabulary")
    thresholds: dict[str, Thresholds] = field(name="bars", default={})
    check_seeds: bool = field(name="replays", default=True)
    lease_seconds: float = 1800.0
    retained_versions: int = field(name="versions_kept", default=3)


def sign_settings(settings: SwarmSettings, key: Ed25519PrivateKey) -> bytes:
    """Return the settings as a coordinator sends them, signed with the key of the run."""
    return append_signature(_DOMAIN, msgspec.msgpack.encode(settings), key)


def read_settings(signed: bytes, run: str, public: bytes) -> SwarmSettings:
    """Return settings that were sent. Raises BadSignature unless the run has signed them, and MsgspecError."""
    settings = msgspec.msgpack.decode(verify_and_unwrap(_DOMAIN, signed, public), type=SwarmSettings)
    if settings.run != run:
        raise BadSignature(f"these are the settings of {settings.run}, not of {run}")
    return settings


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
