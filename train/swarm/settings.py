"""What all nodes of a swarm have to agree on. The run signs it, and it never changes while the run lives."""

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct, field

from train.sampling.engine_spec import EngineSpec
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
