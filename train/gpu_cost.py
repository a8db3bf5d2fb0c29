"""The cost of GPUs rented by the hour, in the currency of the price."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class GpuPrice:
    gpus: int  # number of GPUs
    gpu_hour: float  # price of one GPU for an hour


@dataclass(frozen=True, slots=True)
class GpuCost:
    """The cost of the GPU time of sampling.

    seconds              wall time, paid for all GPUs
    n_samples            samples in this time
    samples_per_problem  samples of each problem
    """

    price: GpuPrice
    seconds: float
    n_samples: int
    samples_per_problem: int

    @property
    def total(self) -> float:
        return self.price.gpus * self.price.gpu_hour * self.seconds / 3600

    @property
    def per_sample(self) -> float | None:
        """Return the cost of a sample; None if there are no samples."""
        return self.total / self.n_samples if self.n_samples else None

    @property
    def per_problem(self) -> float | None:
        """Return the cost of all samples of a problem; None if there are no samples."""
        return None if self.per_sample is None else self.per_sample * self.samples_per_problem

    def as_table(self) -> dict[str, Any]:
        """Return the cost as JSON values; unknown amounts are null."""
        amounts = {"total": self.total, "per_problem": self.per_problem, "per_sample": self.per_sample}
        return {**asdict(self), **amounts}

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "GpuCost":
        """Decode the result of `as_table`. Raises LookupError or TypeError if it is damaged."""
        price = GpuPrice(**table["price"])
        return cls(price, table["seconds"], table["n_samples"], table["samples_per_problem"])

    def __str__(self) -> str:
        each = (
            "nothing was sampled"
            if self.per_problem is None
            else f"{self.per_problem:,.4g} a problem, {self.per_sample:,.4g} a sample"
        )
        return f"{each}, {self.total:,.2f} for {self.price.gpus} GPUs in {self.seconds / 3600:,.2f} hours"
