"""The options of an export."""

from dataclasses import dataclass, field

from curate.prompt import PromptFormat
from curate.trust import TrustPolicy
from rewards.case_selection import DEFAULT_MAX_CASES, STRATEGIES


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options that, together with the dataset, decide the content of an export."""

    select: str = "strongest"  # which tests a reward runs: one of selection.WAYS
    budget: int | None = None  # maximum number of tests; None: DEFAULT_MAX_CASES, or as many as the target can run
    include: tuple[str, ...] = ()  # what to export although it is not trusted: words of curate.trust.INCLUDE_CHOICES
    verl_data_source: str = "taco"
    # the form of the prompts; chat template arguments are recorded only
    prompt: PromptFormat = field(default_factory=PromptFormat)
    name: str = ""  # name of the package, if the target is one; "": the name of the output folder

    def __post_init__(self) -> None:
        if self.select not in STRATEGIES:
            raise ValueError(f"select must be one of {', '.join(STRATEGIES)}, not {self.select!r}")
        if self.budget is not None and self.budget < 1:
            raise ValueError(f"budget must be at least 1, not {self.budget}")
        TrustPolicy.from_choices(self.include)

    @property
    def max_tests(self) -> int:
        return self.budget or DEFAULT_MAX_CASES

    @property
    def trust(self) -> TrustPolicy:
        return TrustPolicy.from_choices(self.include)
