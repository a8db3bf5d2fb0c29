"""The bars of a pair of engines: how far honest answers may be from what a verifier computes, and the file of bars.

An answer is compared token by token, or chunk by chunk of 32 tokens: units. A bar describes the units of honest
answers, so that it holds for any number of them: the distance of an answer, and that of a lease, is over all of its
units. From the bar follows a bound for the chance that honest units are that far off; they are rejected if the bound is
below the rate that is allowed, which all comparisons of a lease share. So few tokens are as seldom rejected as many.

`ValueBar` bounds a total by Bernstein's inequality, `ShareBar` a count by Chernoff's. Both suppose that answers are
like those of the calibration, and that rounding makes large values exponentially rare, as it does in those.
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

FALSE_REJECT_RATE = 1e-4  # of honest leases, at most
N_BARS = 5  # per lease: with replay, all but the share of unlikely tokens

NotNegative = Annotated[float, Meta(ge=0, le=1e9)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]
Share = Annotated[float, Meta(gt=0, lt=1)]


class ValueBar(Struct, frozen=True, forbid_unknown_fields=True):
    """A distance of honest units, of 0 or more.

    mean, variance  of a unit
    scale           large values are rarer by a factor e for each step of this size
    limit           no unit of an honest lease is beyond it
    spread          deviation of the means of leases, beyond that which follows from the variance
    """

    mean: NotNegative
    variance: Positive
    scale: Positive
    limit: Positive
    spread: NotNegative = 0.0

    def severity(self, values: "NDArray[float64]", log_odds: float) -> float:
        """Return how far units are off: honest ones exceed 1 once in exp(log_odds), and 3 once in its third power."""
        if not (n_units := len(values)):
            return 0.0
        excess = max(float(values.sum()) - n_units * self.mean, 0.0)
        variance = n_units * self.variance + (n_units * self.spread) ** 2
        surprise = excess**2 / (2 * (variance + self.scale * excess))
        return max(surprise / log_odds, float(values.max()) / self.limit)


class ShareBar(Struct, frozen=True, forbid_unknown_fields=True):
    """A property that a share of honest tokens has.

    rate    the share
    spread  deviation of the shares of leases, beyond that of independent tokens
    """

    rate: Share
    spread: NotNegative = 0.0

    def severity(self, values: "NDArray[float64]", log_odds: float) -> float:
        """Return how far tokens are off, each 1 if it has the property and else 0; see `ValueBar.severity`."""
        share = float(values.sum()) / max(len(values), 1)
        if share <= self.rate:
            return 0.0
        divergence = share * log(share / self.rate)
        if share < 1:
            divergence += (1 - share) * log((1 - share) / (1 - self.rate))
        dispersion = 1 + len(values) * self.spread**2 / (self.rate * (1 - self.rate))
        return len(values) * divergence / dispersion / log_odds


class Thresholds(Struct, frozen=True, forbid_unknown_fields=True):
    """The bars of a pair of engines. Those here are wide ones for half precision, for runs that have not calibrated.

    exponent_mismatches   exponents that differ in a chunk
    mantissa_differences  their mean in a chunk, where exponents are equal
    seed_mismatches       tokens that their seed does not give
    margins               by how much the noisy logit of a token is below the largest, in nats
    logprob_errors        |difference of log-probabilities| of a token between node and verifier
    unlikely_tokens       tokens with a probability below 0.01; where seeds cannot be replayed
    end_probability       an end of the text needs at least this probability; where seeds cannot be replayed
    """

    exponent_mismatches: ValueBar = ValueBar(mean=6, variance=12, scale=2, limit=40)
    mantissa_differences: ValueBar = ValueBar(mean=1.5, variance=0.1, scale=0.3, limit=4)
    seed_mismatches: ShareBar = ShareBar(rate=0.02)
    margins: ValueBar = ValueBar(mean=2e-3, variance=5e-4, scale=0.06, limit=0.8)
    logprob_errors: ValueBar = ValueBar(mean=0.05, variance=0.01, scale=0.1, limit=2)
    unlikely_tokens: ShareBar = ShareBar(rate=0.5, spread=0.05)
    end_probability: float = 1e-4


def thresholds_for(thresholds: Mapping[str, Thresholds], engine: str) -> Thresholds:
    """Return the bars of an engine, as it was named, such as "vllm 0.32.0 cpu", and of verifiers.

    A node names its engine itself, so a name that was not calibrated must not get it wider bars than those that were:
    it is judged by the narrowest. Without any bars, the usual ones count.
    """
    kind = engine.split(maxsplit=1)[0] if engine.strip() else ""
    if found := thresholds.get(f"{kind}/transformers") or thresholds.get(""):
        return found
    return min(
        thresholds.values(),
        key=lambda found: (found.margins.limit, found.exponent_mismatches.mean),
        default=Thresholds(),
    )


def read_thresholds(path: Path) -> dict[str, Thresholds]:
    """Return the bars in a file, by the pair of engines. Raises ConfigError if they make no sense."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        return msgspec.convert(tables, dict[str, Thresholds])
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} does not hold bars: {error}. Make it: curate swarm calibrate") from None


def add_thresholds(path: Path, pair: str, thresholds: Thresholds) -> None:
    """Write the bars of one pair of engines, and keep those of others. Raises ConfigError if that is not possible."""
    try:
        lock = FileLock(path.with_name(f".{path.name}.lock"), wait_seconds=inf, temporary=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    with lock:
        bars = (read_thresholds(path) if path.exists() else {}) | {pair: thresholds}
        tables = [
            "\n".join([f'["{name}"]', *(f"{bar} = {_toml(value)}" for bar, value in msgspec.to_builtins(of).items())])
            for name, of in sorted(bars.items())
        ]
        aside = path.with_name(path.name + ".part")
        try:
            aside.write_text("\n\n".join(tables) + "\n", encoding="utf-8")
            aside.replace(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _toml(value: float | dict[str, float]) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + " }"
    return repr(float(value))
