"""Bars from answers that are known to be honest.

A bar is a multiple of the largest distance that was measured, because the largest of many more answers is larger. It is
never below a floor: engines that agree to the last bit here may differ in it elsewhere. Where they compute in half
precision, the floor is higher: a model that is nearly certain of its tokens shows little of the rounding, and training
may make it less certain.

The mismatches of one chunk and the margin of one token have long tails, so the largest in some dozens of answers is
chance. Their floors in half precision are above what hundreds of honest answers show, and below what cheats show: a
wrong token of the prompt changes about half of the 128 exponents of a chunk, a wrong model more. TOPLOC's own bar is
38 of them.
"""

from collections.abc import Callable, Sequence

from train.asynchronous.messages import Lease
from train.errors import ConfigError
from train.sampling.commitment import decode_commitments
from train.sampling.protocol import Engine, SampledCompletion, SamplingParams
from train.swarm.settings import Thresholds
from train.swarm.verification.distances import Distances, measure_distances, pool_distances
from train.swarm.verification.verifier_model import VerifierModel

# Multiples of the largest honest distance: of one chunk or token, of a mean over a file, of log-probabilities.
_ONE, _MEAN, _LOGPROB = 2.0, 1.5, 5.0
_FLOOR = Thresholds(
    exponent_mismatches=4.0, exponent_mismatches_mean=2.0, mantissa_mean=0.5, max_margin=0.02, logprob_error=1e-3,
    unlikely_share=0.1, seed_match_share=1.0, margin_mean=5e-6, margin_square_mean=1e-7,
)  # fmt: skip
_COARSE_FLOOR = Thresholds(
    exponent_mismatches=32.0, exponent_mismatches_mean=4.0, mantissa_mean=1.0, max_margin=0.6, logprob_error=0.02,
    unlikely_share=0.1, seed_match_share=0.985, margin_mean=5e-4, margin_square_mean=5e-5,
)  # fmt: skip
_COARSE_MANTISSA = 0.05  # mean difference of mantissas: two engines in float32 have hardly any
_MIN_TOKENS = 1000  # with fewer, the share of replayed tokens says little


def sample_completions(
    engine: Engine, leases: Sequence[Lease], note: Callable[[int], None]
) -> list[list[SampledCompletion]]:
    """Return an engine's answers to leases; `note` is called with the number of answers that are finished.

    Raises ConfigError if the engine cannot take a prompt, and SamplerError if it fails.
    """
    waiting = [(group, number) for group, lease in enumerate(leases) for number in range(len(lease.seeds))]
    found: dict[str, SampledCompletion] = {}
    n_begun = 0
    while len(found) < len(waiting):
        while n_begun < len(waiting) and n_begun - len(found) < engine.max_concurrency:
            group, number = waiting[n_begun]
            _begin(engine, f"{group}.{number}", leases[group], number)
            n_begun += 1
        found |= engine.step()
        note(len(found))
    return [[found[f"{group}.{number}"] for number in range(len(lease.seeds))] for group, lease in enumerate(leases)]


def _begin(engine: Engine, key: str, lease: Lease, number: int) -> None:
    draw = lease.sampling_params
    sampling = SamplingParams(draw.temperature, draw.top_p, draw.max_tokens, logprobs=True, verifiable=True)
    try:
        engine.add(key, lease.prompt, lease.seeds[number], sampling)
    except ValueError as error:
        raise ConfigError(f"a prompt to calibrate with cannot be used: {error}") from error


def measure_completions(
    verifier_model: VerifierModel, lease: Lease, completions: Sequence[SampledCompletion]
) -> list[Distances]:
    """Return how far the answers to a lease are from what a verifier computes."""
    return [
        measure_distances(
            decode_commitments(completion.commitments, completion.n_tokens), completion.logprobs, recomputation
        )
        for completion, recomputation in zip(
            completions, verifier_model.recompute_lease(completions, lease), strict=True
        )
    ]


def fit_thresholds(honest: Sequence[Sequence[Distances]]) -> Thresholds:
    """Return the bars for a pair of engines, given the distances of the answers to each lease.

    Raises ConfigError if there are too few tokens.
    """
    answers = [answer for lease in honest for answer in lease]
    files = [pool_distances(lease) for lease in honest]
    n_tokens = sum(file.n_tokens for file in files)
    if n_tokens < _MIN_TOKENS:
        raise ConfigError(f"{n_tokens} tokens are too few to calibrate by; there must be {_MIN_TOKENS}. Draw more")
    mantissa_mean = max(file.mantissa_mean for file in files)
    floor = _COARSE_FLOOR if mantissa_mean > _COARSE_MANTISSA else _FLOOR
    # One miss more than there were: without any, the next answer with one would be rejected.
    replayed_share = 1 - (sum(file.token_mismatches for file in files) + 1) / (n_tokens + 2)
    return Thresholds(
        exponent_mismatches=max(
            _ONE * max(answer.exponent_mismatches for answer in answers), floor.exponent_mismatches
        ),
        exponent_mismatches_mean=max(
            _MEAN * max(file.exponent_mismatches_mean for file in files), floor.exponent_mismatches_mean
        ),
        mantissa_mean=max(_MEAN * mantissa_mean, floor.mantissa_mean),
        seed_match_share=min(replayed_share, floor.seed_match_share),
        max_margin=max(_ONE * max(answer.max_margin for answer in answers), floor.max_margin),
        margin_mean=max(_MEAN * sum(file.margin_sum for file in files) / n_tokens, floor.margin_mean),
        margin_square_mean=max(
            _MEAN * sum(file.margin_square_sum for file in files) / n_tokens, floor.margin_square_mean
        ),
        logprob_error=max(_LOGPROB * max(file.logprob_error for file in files), floor.logprob_error),
        unlikely_share=min(max(_MEAN * max(file.unlikely_share for file in files), floor.unlikely_share), 1.0),
    )
