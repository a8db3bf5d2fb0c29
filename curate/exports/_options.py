"""What decides the content of an export, beside the dataset."""

from dataclasses import dataclass

from rewards.selection import BUDGET, WAYS


@dataclass(frozen=True, slots=True)
class ExportOptions:
    select: str = "strongest"  # of selection.WAYS: which tests a reward runs
    budget: int | None = None  # tests at most; None: BUDGET, or what the target can run
    unverified: bool = False  # also problems without a reference, whose tests nobody has seen to hold
    verl_data_source: str = "taco"
    name: str = ""  # of the package, for targets that are one; "": that of the output folder

    def __post_init__(self) -> None:
        if self.select not in WAYS:
            raise ValueError(f"select must be one of {', '.join(WAYS)}, not {self.select!r}")
        if self.budget is not None and self.budget < 1:
            raise ValueError(f"budget must be at least 1, not {self.budget}")

    @property
    def most_tests(self) -> int:
        return self.budget or BUDGET
