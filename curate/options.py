"""The options of a build."""

from dataclasses import dataclass

from curate.strength import mutation
from sandbox import languages


@dataclass(frozen=True, slots=True)
class Options:
    """The options that, together with inputs and evaluation sets, decide the content of a dataset."""

    min_tests: int = 5  # DeepCoder's rule; fewer invite programs that print memorised answers
    tries: int = 8  # solutions executed before a problem is given up
    reference_languages: tuple[str, ...] = ("python",)  # languages of the solutions that may be executed
    cross_checks: int = 3  # further solutions executed, to see whether they agree with the tests
    no_reference: str = "keep"  # or "drop": problems of sources that publish no solutions
    dedup: float = 0.7  # minimum Jaccard similarity of word 5-grams at which two statements are nearly the same
    mutants: int = mutation.MOST  # wrong programs made from each reference, to see what its tests catch
    min_test_strength: float | None = None  # minimum share of them that the tests must reject; None: any
    limit: int | None = None  # problems read from each source; None: all
    seed: int = 0

    def __post_init__(self) -> None:
        if self.no_reference not in ("keep", "drop"):
            raise ValueError(f'no_reference must be "keep" or "drop", not {self.no_reference!r}')
        if self.min_test_strength is not None and not self.mutants:
            raise ValueError("without mutants no test strength is measured: min_test_strength needs mutants above 0")
        for name in self.reference_languages:
            languages.load(name)
