"""Thresholds of a pair of engines for the distances between completions and a verifier's recomputation, and their file.

Completions are compared in units: tokens, or chunks of 32 tokens. A threshold describes the distribution of honest
units, from which it bounds the probability of a distance at least as large. Units are rejected if that bound is below
the allowed rate. All comparisons of a lease share that rate, so length does not change the rate of false rejections.

`DistanceThreshold` bounds a total by Bernstein's inequality, `ShareThreshold` a count by Chernoff's. Both assume that
completions resemble the calibration samples, and that rounding makes large values exponentially rare.
"""

import tomllib
from collections.abc import Mapping
from math import inf, log
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from sandbox.concurrency.file_lock import FileLock
from train.errors import ConfigError

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

FALSE_REJECT_RATE = 1e-4  # maximum share of rejected honest leases
N_THRESHOLDS = 5  # compared for each lease: with replay, all but `unlikely_tokens`

NotNegative = Annotated[float, Meta(ge=0, le=1e9)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]
Share = Annotated[float, Meta(gt=0, lt=1)]


class DistanceThreshold(Struct, frozen=True, forbid_unknown_fields=True):
    """The distribution of a nonnegative distance of honest units.

    mean, variance  of a unit
    scale           of the exponential tail: a value larger by `scale` is rarer by a factor e
    limit           maximum of a unit in an honest lease
    spread          standard deviation of lease means in excess of independent units
    """

    mean: NotNegative
    variance: Positive
    scale: Positive
    limit: Positive
    spread: NotNegative = 0.0

    def severity(self, values: "NDArray[float64]", log_odds: float) -> float:
        """Return the severity s of the distances; honest units reach s at a rate of about exp(-s * log_odds)."""
        if not (n_units := len(values)):
            return 0.0
        excess = max(float(values.sum()) - n_units * self.mean, 0.0)
        variance = n_units * self.variance + (n_units * self.spread) ** 2
        surprise = excess**2 / (2 * (variance + self.scale * excess))
        return max(surprise / log_odds, float(values.max()) / self.limit)


class ShareThreshold(Struct, frozen=True, forbid_unknown_fields=True):
    """The share of honest tokens with a property.

    rate    the share
    spread  standard deviation of lease shares in excess of independent tokens
    """

    rate: Share
    spread: NotNegative = 0.0

    def severity(self, values: "NDArray[float64]", log_odds: float) -> float:
        """Return the severity of the share of flagged tokens, those with the value 1; see `DistanceThreshold`."""
        share = float(values.sum()) / max(len(values), 1)
        if share <= self.rate:
            return 0.0
        divergence = share * log(share / self.rate)
        if share < 1:
            divergence += (1 - share) * log((1 - share) / (1 - self.rate))
        dispersion = 1 + len(values) * self.spread**2 / (self.rate * (1 - self.rate))
        return len(values) * divergence / dispersion / log_odds


class Thresholds(Struct, frozen=True, forbid_unknown_fields=True):
    """The thresholds of a pair of engines. The defaults are wide, for half precision without calibration.

    exponent_mismatches   number of mismatched exponents in a chunk
    mantissa_differences  mean difference of mantissas in a chunk, where exponents are equal
    seed_mismatches       tokens that their seed does not reproduce
    margins               difference between a token's noisy logit and the largest, in nats
    logprob_errors        |difference of log-probabilities| of a token between node and verifier
    unlikely_tokens       tokens with a probability below 0.01; used if seeds cannot be replayed
    end_probability       minimum probability of an end token; used if seeds cannot be replayed
    """

    exponent_mismatches: DistanceThreshold = DistanceThreshold(mean=6, variance=12, scale=2, limit=40)
    mantissa_differences: DistanceThreshold = DistanceThreshold(mean=1.5, variance=0.1, scale=0.3, limit=4)
    seed_mismatches: ShareThreshold = ShareThreshold(rate=0.02)
    margins: DistanceThreshold = DistanceThreshold(mean=2e-3, variance=5e-4, scale=0.06, limit=0.8)
    logprob_errors: DistanceThreshold = DistanceThreshold(mean=0.05, variance=0.01, scale=0.1, limit=2)
    unlikely_tokens: ShareThreshold = ShareThreshold(rate=0.5, spread=0.05)
    end_probability: float = 1e-4


def select_thresholds(thresholds: Mapping[str, Thresholds], engine: str) -> Thresholds:
    """Return the thresholds for nodes with an engine such as "vllm 0.32.0 cpu".

    Nodes choose the name, so an uncalibrated name gets the narrowest thresholds; without any, the defaults apply.
    """
    kind = engine.split(maxsplit=1)[0] if engine.strip() else ""
    if found := thresholds.get(f"{kind}/transformers") or thresholds.get(""):
        return found
    return min(
        thresholds.values(), key=lambda each: (each.margins.limit, each.exponent_mismatches.mean), default=Thresholds()
    )


def read_thresholds(path: Path) -> dict[str, Thresholds]:
    """Read a file of thresholds by pair of engines. Raises ConfigError if it is invalid."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        return msgspec.convert(tables, dict[str, Thresholds])
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} does not hold thresholds: {error}. Create it: curate swarm calibrate") from None


def add_thresholds(path: Path, pair: str, thresholds: Thresholds) -> None:
    """Write the thresholds of one pair of engines, and retain all others. Raises ConfigError if the write fails."""
    try:
        lock = FileLock(path.with_name(f".{path.name}.lock"), wait_seconds=inf, temporary=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    with lock:
        by_pair = (read_thresholds(path) if path.exists() else {}) | {pair: thresholds}
        tables = [
            "\n".join(
                [f'["{name}"]', *(f"{key} = {_format_toml(value)}" for key, value in msgspec.to_builtins(each).items())]
            )
            for name, each in sorted(by_pair.items())
        ]
        aside = path.with_name(path.name + ".part")
        try:
            aside.write_text("\n\n".join(tables) + "\n", encoding="utf-8")
            aside.replace(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _format_toml(value: float | dict[str, float]) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_format_toml(each)}" for name, each in value.items()) + " }"
    return repr(float(value))
