"""What all nodes of a swarm have to agree on. The run signs it, and it never changes while the run lives."""

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct, field

from train.sampling.engine_spec import EngineSpec
from train.swarm.signatures import BadSignature, append_signature, verify_and_unwrap

_DOMAIN = "curate-settings-1"


class Thresholds(Struct, frozen=True):
    """How far an answer may be from what the verifier computes; `curate swarm calibrate` measures them.

    Values beyond `hard_factor` times a bar are a hard rejection; between the two it is a soft one.

    exponent_mismatches       exponents that differ in one chunk of 32 tokens, at most; beyond it is always a soft
                              rejection
    exponent_mismatches_mean  their mean over the chunks of a file, at most
    mantissa_mean             mean difference of mantissas over a file, at most
    seed_match_share          share of tokens that the seeds give again, on average over honest answers
    seed_match_sigmas         how seldom honest answers may be rejected, as for a normal value this far from its mean
    max_margin                a token that its seed does not give had a noisy logit this far below the largest, in nats,
                              at most
    margin_mean               mean of that over all tokens, those that the seed gives included, on average over honest
                              answers
    margin_square_mean        mean of its square; the sum over an answer may exceed its mean by `seed_match_sigmas`
                              deviations
    logprob_error             mean |difference of log-probabilities| over a file, at most; beyond it is a soft rejection
    end_probability           an end of the text is believed if it had at least this probability
    unlikely_share            share of tokens of a file with a probability below 0.01, at most; where seeds cannot be
                              replayed
    """

    exponent_mismatches: float = field(name="mismatches", default=32.0)
    exponent_mismatches_mean: float = field(name="mismatches_mean", default=8.0)
    mantissa_mean: float = 2.0
    seed_match_share: float = field(name="replayed_share", default=0.98)
    seed_match_sigmas: float = field(name="replayed_sigmas", default=4.0)
    max_margin: float = field(name="margin", default=0.6)
    margin_mean: float = 2e-3
    margin_square_mean: float = field(name="margin_square", default=5e-4)
    logprob_error: float = 0.05
    end_probability: float = 1e-4
    unlikely_share: float = 0.5
    hard_factor: float = field(name="far", default=3.0)


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
