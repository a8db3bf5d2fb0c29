"""The cost of GPUs rented by the hour, in the currency of the price."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class GpuPrice:
    gpus: int  # number of rented GPUs
    gpu_hour: float  # price of one GPU for an hour


@dataclass(frozen=True, slots=True)
class GpuCost:
    """The cost of the GPU time of sampling.

    seconds              wall time, for which all GPUs are rented
    n_samples            number of samples generated in this time
    samples_per_problem  number of samples of each problem
    """

    price: GpuPrice
    seconds: float
    n_samples: int
    samples_per_problem: int

    @property
    def total_cost(self) -> float:
        return self.price.gpus * self.price.gpu_hour * self.seconds / 3600

    @property
    def cost_per_sample(self) -> float | None:
        """Return the mean cost of a sample; None without samples."""
        return self.total_cost / self.n_samples if self.n_samples else None

    @property
    def cost_per_problem(self) -> float | None:
        """Return the mean cost of all samples of a problem; None without samples."""
        return None if self.cost_per_sample is None else self.cost_per_sample * self.samples_per_problem

    def as_table(self) -> dict[str, Any]:
        """Return the cost as JSON values; unknown amounts are null."""
        amounts = {"total": self.total_cost, "per_problem": self.cost_per_problem, "per_sample": self.cost_per_sample}
        return {**asdict(self), **amounts}

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "GpuCost":
        """Decode the result of `as_table`. Raises LookupError or TypeError if it is damaged."""
        price = GpuPrice(**table["price"])
        return cls(price, table["seconds"], table["n_samples"], table["samples_per_problem"])

    def __str__(self) -> str:
        means = (
            "nothing was sampled"
            if self.cost_per_problem is None
            else f"{self.cost_per_problem:,.4g} a problem, {self.cost_per_sample:,.4g} a sample"
        )
        return f"{means}, {self.total_cost:,.2f} for {self.price.gpus} GPUs in {self.seconds / 3600:,.2f} hours"
