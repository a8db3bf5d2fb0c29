"""The proof, after every transfer, that an engine has the learner's weights.

1. The engine reports the manifest's version.
2. Every tensor in the engine has the checksum that the learner sent.
3. The log-probabilities of the probe equal the learner's within a tolerance. This check also covers layout, caches,
precision and configuration, unlike checksums.
"""

import logging
import time
from collections.abc import Sequence
from math import exp, inf, isfinite, prod

from train.errors import ParityError, SamplerError
from train.sampling.protocol import Engine
from train.weights.manifest import Probe, SentTensor, WeightManifest
from train.weights.source import Weights, record_checksums

log = logging.getLogger(__name__)

PARITY_METRIC = "parity/token_mult_prob_error"  # NeMo-RL's name for the mean of exp |difference of log-probabilities|
CHECKED_SHARE_METRIC = "parity/checked"  # share of the weights whose checksums were compared
_MAX_NAMED = 3  # maximum number of tensor names in a message
_RECOVERY_HINT = (
    "Nothing was sampled with these weights. Type the same command again, `curate train` with --resume. If the error "
    "recurs, try another engine.transfer or other engine.options"
)


def load_and_prove(
    engine: Engine, weights: Weights, version: int, probe: Probe | None, max_error: float
) -> dict[str, float]:
    """Load tensors into an engine in this process, and return the metrics of `prove`, whose errors it raises."""
    sent: list[SentTensor] = []
    engine.load(record_checksums(weights, sent), version)
    return prove(engine, WeightManifest(version, tensors=tuple(sent), probe=probe, max_error=max_error))


def prove(engine: Engine, manifest: WeightManifest) -> dict[str, float]:
    """Compare an engine's weights with the learner's, and return the metrics of the comparison.

    Raises ParityError if they differ, and SamplerError if the engine fails.
    """
    start_time = time.monotonic()
    if (reported := engine.version()) != manifest.version:
        raise ParityError(
            f"weight update {manifest.version} was not applied: the engine reports version {reported}. {_RECOVERY_HINT}"
        )
    found = engine.checksums(manifest.tensors)
    if wrong := [tensor.name for tensor in manifest.tensors if found.get(tensor.name, "") not in ("", tensor.checksum)]:
        named = ", ".join(wrong[:_MAX_NAMED]) + (", ..." if len(wrong) > _MAX_NAMED else "")
        raise ParityError(
            f"weight update {manifest.version} is corrupt: {len(wrong)} of "
            f"{len(manifest.tensors)} tensors in the engine differ from the learner's ({named}). The engine must "
            f"compute in model.dtype, and nothing else may change its weights. {_RECOVERY_HINT}"
        )
    sizes = {tensor.name: prod(tensor.shape) for tensor in manifest.tensors}
    if unknown := [name for name in sizes if not found.get(name)]:
        log.debug("the engine reports no checksums for: %s", ", ".join(unknown))
    checked = sum(size for name, size in sizes.items() if found.get(name))
    metrics = {CHECKED_SHARE_METRIC: checked / max(sum(sizes.values()), 1)}
    if manifest.probe is not None:
        metrics |= _compare_logprobs(engine, manifest, manifest.probe)
    return {**metrics, "parity/proof_s": time.monotonic() - start_time}


def _compare_logprobs(engine: Engine, manifest: WeightManifest, probe: Probe) -> dict[str, float]:
    try:
        by_engine = engine.compute_logprobs(probe.tokens)
    except ValueError as refusal:
        raise SamplerError(
            f"the engine refused the probe of {max(map(len, probe.tokens))} tokens: {refusal}. Increase "
            "engine.max_model_len"
        ) from refusal
    compared = [values[len(values) - len(sent) :] for sent, values in zip(probe.logprobs, by_engine, strict=True)]
    metrics = measure_logprob_differences(probe.logprobs, compared)
    if not metrics[PARITY_METRIC] <= manifest.max_error:
        raise ParityError(
            f"after weight update {manifest.version} sampler and learner differ: for {sum(map(len, compared))} fixed "
            f"tokens the mean of exp |difference of log-probabilities| is {metrics[PARITY_METRIC]:.4f}, and "
            f"engine.parity allows {manifest.max_error:g}. Compare engine and model.dtype. {_RECOVERY_HINT}"
        )
    return metrics


def measure_logprob_differences(
    by_learner: Sequence[Sequence[float]], by_engine: Sequence[Sequence[float]]
) -> dict[str, float]:
    """Compute metrics of the differences between log-probabilities, given as one list per sequence.

    PARITY_METRIC is infinite if a difference is not finite.
    """
    pairs = zip(by_learner, by_engine, strict=True)
    differences = [abs(learner - engine) for pair in pairs for learner, engine in zip(*pair, strict=True)]
    finite = all(map(isfinite, differences))
    error = sum(exp(min(difference, 50.0)) for difference in differences) / max(len(differences), 1) if finite else inf
    return {PARITY_METRIC: error, "parity/logp_difference_max": max(differences, default=0.0)}
