"""The options of a build."""

from dataclasses import dataclass

from curate.json_records import omit_if_default
from curate.strength.mutants import MAX_MUTANTS
from sandbox import languages


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options that, together with inputs and evaluation sets, decide the content of a dataset."""

    min_tests: int = 5  # DeepCoder's minimum; fewer tests accept programs that print memorized outputs
    tries: int = 8  # maximum number of solutions executed per problem
    reference_languages: tuple[str, ...] = ("python",)  # languages of solutions to execute
    cross_checks: int = 3  # further solutions executed, to check their agreement with the tests
    no_reference: str = "keep"  # "keep" or "drop" problems of sources that publish no solutions
    dedup: float = 0.7  # minimum Jaccard similarity of word 5-grams of near-duplicates
    mutants: int = MAX_MUTANTS  # wrong programs made from each reference, to measure test strength
    min_test_strength: float | None = None  # minimum share of mutants that the tests must reject; None: any
    limit: int | None = None  # problems read from each source; None: all
    seed: int = 0
    sample: int | None = omit_if_default(None)  # rows read from each source, chosen by the seed; None: all

    def __post_init__(self) -> None:
        for name, minimum in (("min_tests", 0), ("tries", 1), ("cross_checks", 0), ("mutants", 0), ("limit", 1)):
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise ValueError(f"{name} must be at least {minimum}, not {value}")
        if not 0 < self.dedup <= 1:
            raise ValueError(f"dedup must be above 0 and at most 1, not {self.dedup}")
        if not 0 <= (self.min_test_strength or 0) <= 1:
            raise ValueError(f"min_test_strength must be between 0 and 1, not {self.min_test_strength}")
        if self.no_reference not in ("keep", "drop"):
            raise ValueError(f'no_reference must be "keep" or "drop", not {self.no_reference!r}')
        if self.min_test_strength is not None and not self.mutants:
            raise ValueError("min_test_strength needs mutants to measure test strength; set mutants above 0")
        for name in self.reference_languages:
            languages.load(name)
