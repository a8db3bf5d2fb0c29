"""Calibration: thresholds fitted to honest completions of a run's engine on its own prompts.

Directly measuring a rate of one honest lease in ten thousand would take too many samples. Thresholds rest on two
assumptions: completions of the run resemble the calibration samples, and large values of a unit are exponentially
rare.

    mean, variance  of the units, plus one unseen unit at the maximum: fewer leases give wider thresholds
    spread          standard deviation of lease means, if significant: rounding differs between prompts
    scale           mean excess of the largest values over the next one
    limit           value that one lease in 1 / FALSE_REJECT_RATE exceeds, extrapolated by that scale

Floors bound thresholds from below: engines that agree bit by bit here may not elsewhere. They are higher in half
precision, where training may reduce the model's confidence and expose more rounding.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from math import log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from train.asynchronous.messages import Lease
from train.errors import ConfigError
from train.sampling.commitment import decode_commitments
from train.sampling.engine_spec import clear_trainer_environment, start_engine
from train.sampling.protocol import Engine, SampledCompletion, SamplingParams
from train.swarm.verification.thresholds import (
    FALSE_REJECT_RATE,
    N_THRESHOLDS,
    DistanceThreshold,
    ShareThreshold,
    Thresholds,
)
from train.swarm.verification.verdicts import Distances, FloatArray, measure_distances, pool_distances
from train.swarm.verification.verifier_model import VerifierModel

if TYPE_CHECKING:
    from train.config import Config

ProgressCallback = Callable[[str, int, int], None]  # stage, number done, and total


def calibrate(config: "Config", *, n_leases: int, report: ProgressCallback) -> tuple[str, Thresholds, Distances]:
    """Measure the pair of engines of a run; return its name, thresholds, and the distances of all completions.

    n_leases: number of groups of the run's size to sample

    Raises ConfigError, SamplerError, and CurateError if the run's datasets cannot be read.
    """
    from train.sampling.open_engine import build_engine_spec

    clear_trainer_environment()
    spec = build_engine_spec(config, "calibration")
    leases = _build_leases(config, n_leases)
    n_completions = sum(len(lease.seeds) for lease in leases)
    with closing(start_engine(spec, verifiable=True)) as engine:
        by_lease = sample_completions(engine, leases, lambda done: report("sampling", done, n_completions))
    verifier_model = VerifierModel.from_spec(spec)  # only now: one GPU may not hold both
    distances_by_lease = []
    for lease, completions in zip(leases, by_lease, strict=True):
        distances_by_lease.append(measure_completions(verifier_model, lease, completions))
        report("verifying", sum(map(len, distances_by_lease)), n_completions)
    pooled = pool_distances([distances for lease in distances_by_lease for distances in lease])
    return f"{spec.kind}/transformers", fit_thresholds(distances_by_lease), pooled


def _build_leases(config: "Config", n_leases: int) -> list[Lease]:
    from transformers import AutoTokenizer

    from train.rollouts.groups import derive_sample_seed
    from train.rollouts.prompt_dataset import PromptDataset

    tokenizer = AutoTokenizer.from_pretrained(str(Path(config.model.path).expanduser()))
    seed, rollout = config.run.seed, config.rollout
    params = SamplingParams(
        rollout.temperature, 1.0, max(stage.max_tokens for stage in config.stages), True, verifiable=True
    )
    with tempfile.TemporaryDirectory(prefix="curate-calibrate-") as folder:
        prompts = PromptDataset(config.data, config.prompt, tokenizer, seed=seed, cache=Path(folder) / "prompts.jsonl")
        return [
            Lease(
                group=position,
                attempt=0,
                version=0,
                prompt=prompts.get_prompt(position).prompt_ids,
                seeds=tuple(derive_sample_seed(seed, position, number) for number in range(rollout.completions)),
                sampling_params=params,
                expires_in_seconds=0.0,
            )
            for position in range(n_leases)
        ]


def sample_completions(
    engine: Engine, leases: Sequence[Lease], note: Callable[[int], None]
) -> list[list[SampledCompletion]]:
    """Sample the completions of leases; `note` receives the number of finished completions.

    Raises ConfigError if the engine cannot take a prompt, and SamplerError if it fails.
    """
    waiting = [(group, number) for group, lease in enumerate(leases) for number in range(len(lease.seeds))]
    found: dict[str, SampledCompletion] = {}
    n_begun = 0
    while len(found) < len(waiting):
        while n_begun < len(waiting) and n_begun - len(found) < engine.max_concurrency:
            group, number = waiting[n_begun]
            lease, n_begun = leases[group], n_begun + 1
            params = dataclasses.replace(lease.sampling_params, logprobs=True, verifiable=True)
            try:
                engine.add(f"{group}.{number}", lease.prompt, lease.seeds[number], params)
            except ValueError as error:
                raise ConfigError(f"the engine cannot take a prompt of the dataset: {error}") from error
        found |= engine.step()
        note(len(found))
    return [[found[f"{group}.{number}"] for number in range(len(lease.seeds))] for group, lease in enumerate(leases)]


def measure_completions(
    verifier_model: VerifierModel, lease: Lease, completions: Sequence[SampledCompletion]
) -> list[Distances]:
    """Return the distances between the completions of a lease and a verifier's recomputation."""
    return [
        measure_distances(
            decode_commitments(completion.commitments, completion.n_tokens), completion.logprobs, recomputation
        )
        for completion, recomputation in zip(
            completions, verifier_model.recompute_lease(completions, lease), strict=True
        )
    ]


_FLOOR = Thresholds(
    exponent_mismatches=DistanceThreshold(mean=0.1, variance=0.25, scale=0.5, limit=4),
    mantissa_differences=DistanceThreshold(mean=0.02, variance=0.01, scale=0.05, limit=1),
    seed_mismatches=ShareThreshold(rate=2e-5),
    margins=DistanceThreshold(mean=1e-7, variance=1e-9, scale=5e-4, limit=5e-3),
    logprob_errors=DistanceThreshold(mean=5e-4, variance=1e-6, scale=1e-3, limit=0.01),
    unlikely_tokens=ShareThreshold(rate=0.05),
)
_COARSE_FLOOR = Thresholds(
    exponent_mismatches=DistanceThreshold(mean=1, variance=1, scale=0.5, limit=12),
    mantissa_differences=DistanceThreshold(mean=0.2, variance=0.01, scale=0.1, limit=4),
    seed_mismatches=ShareThreshold(rate=5e-3),
    margins=DistanceThreshold(mean=1e-4, variance=5e-6, scale=0.02, limit=0.3),
    logprob_errors=DistanceThreshold(mean=5e-3, variance=5e-5, scale=0.02, limit=0.3),
    unlikely_tokens=ShareThreshold(rate=0.05),
)
_COARSE_MANTISSA = 0.05  # mean difference of mantissas that indicates half precision; in float32 it is nearly 0
_MIN_TOKENS, _MIN_LEASES = 1000, 4  # thresholds from fewer carry little information
_TAIL_VALUES = 100  # largest values that determine the scale of the tail; at most a tenth of all
_UNSEEN = 1  # number of values at the maximum that a calibration may have missed


def fit_thresholds(distances_by_lease: Sequence[Sequence[Distances]]) -> Thresholds:
    """Fit the thresholds of a pair of engines to the distances in honest leases.

    Raises ConfigError if there are too few leases or tokens.
    """
    leases = [pool_distances(lease) for lease in distances_by_lease]
    n_tokens = sum(len(lease.margins) for lease in leases)
    if n_tokens < _MIN_TOKENS or len(leases) < _MIN_LEASES:
        raise ConfigError(
            f"{n_tokens} tokens of {len(leases)} groups are too few to calibrate by; {_MIN_TOKENS} tokens of "
            f"{_MIN_LEASES} groups are required. Sample more: --groups"
        )
    mantissas = np.concatenate([lease.mantissa_differences for lease in leases])
    floor = _COARSE_FLOOR if len(mantissas) and mantissas.mean() > _COARSE_MANTISSA else _FLOOR
    thresholds = {}
    for name in (each.name for each in dataclasses.fields(Distances)):
        fit = _fit_share if isinstance(getattr(floor, name), ShareThreshold) else _fit_values
        thresholds[name] = fit([getattr(lease, name) for lease in leases], getattr(floor, name))
    return replace(floor, **thresholds)


def _fit_values(leases: Sequence[FloatArray], floor: DistanceThreshold) -> DistanceThreshold:
    values = np.concatenate(leases)
    if not len(values):  # all completions are shorter than a chunk
        return floor
    rate = FALSE_REJECT_RATE / (2 * N_THRESHOLDS) / max(map(len, leases))  # totals use the other half
    start, scale, share = _fit_tail(values)
    limit = max(start + scale * max(log(share / rate), 0.0), floor.limit)
    unseen = _UNSEEN / len(values) * float(values.max())
    variance = float(values.var()) + unseen * float(values.max())
    return DistanceThreshold(
        mean=max(float(values.mean()) + 2 * sqrt(variance / len(values)) + unseen, floor.mean),
        variance=max(variance, floor.variance),
        scale=max(scale, floor.scale),
        limit=limit,
        spread=_fit_spread(leases),
    )


def _fit_tail(values: FloatArray) -> tuple[float, float, float]:
    """Return the start of the tail of the values, its scale, and the share of the values in it."""
    largest = np.sort(values[values > 0])[::-1]
    n_tail = min(_TAIL_VALUES, len(largest) // 10)
    if not n_tail:
        return float(values.max()), 0.0, 1 / len(values)
    scale = float(largest[:n_tail].mean() - largest[n_tail]) * (1 + 2 / sqrt(n_tail))
    return float(largest[n_tail]), max(scale, float(values.std()) / 2), n_tail / len(values)


def _fit_share(leases: Sequence[FloatArray], floor: ShareThreshold) -> ShareThreshold:
    values = np.concatenate(leases)
    share = float(values.mean())
    rate = share + 2 * sqrt(share * (1 - share) / len(values)) + _UNSEEN / len(values)
    return ShareThreshold(min(max(rate, floor.rate), 0.99), _fit_spread(leases))


def _fit_spread(leases: Sequence[FloatArray]) -> float:
    """Estimate the standard deviation of lease means in excess of independent units; 0 if insignificant."""
    values, n_units = np.concatenate(leases), np.array([len(lease) for lease in leases])
    excess = np.array([lease.sum() for lease in leases]) - n_units * values.mean()
    independent = len(values) * float(values.var())
    beyond = float((excess**2).sum()) - independent
    return sqrt(beyond / float((n_units**2).sum())) if beyond > 2 * sqrt(2 / len(leases)) * independent else 0.0
