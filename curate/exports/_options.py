"""The options of an export."""

from dataclasses import dataclass

from rewards.selection import BUDGET, WAYS


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options that, together with the dataset, decide the content of an export."""

    select: str = "strongest"  # which tests a reward runs: one of selection.WAYS
    budget: int | None = None  # maximum number of tests; None: BUDGET, or as many as the target can run
    unverified: bool = False  # also export problems without a reference, whose tests may be wrong
    verl_data_source: str = "taco"
    name: str = ""  # name of the package, if the target is one; "": the name of the output folder

    def __post_init__(self) -> None:
        if self.select not in WAYS:
            raise ValueError(f"select must be one of {', '.join(WAYS)}, not {self.select!r}")
        if self.budget is not None and self.budget < 1:
            raise ValueError(f"budget must be at least 1, not {self.budget}")

    @property
    def most_tests(self) -> int:
        return self.budget or BUDGET
