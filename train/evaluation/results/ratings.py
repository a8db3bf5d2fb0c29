"""Ratings in a result file, and in words. train/evaluation/codeforces/rating.py computes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from curate.json_records import from_json, json_key

BY_CONTESTS = "contests"


@dataclass(frozen=True, slots=True)
class StoredContest:
    """A contest of a rating: how many problems it has, and how many of them were evaluated."""

    n_problems: int
    n_judged: int


@dataclass(frozen=True, slots=True)
class StoredRating:
    """A rating as a result file has it; other fields are ignored. A number that is unknown is None.

    basis           BY_CONTESTS
    tests_source    where the tests come from
    is_upper_bound  whether wrong programs pass these tests
    attempts        samples of a problem
    percentile      users with a lower rating, in percent; with the bounds for `low` and `high`
    table           of percentiles
    """

    basis: str = field(metadata=json_key("by"))
    rating: float
    low: float | None
    high: float | None
    tests_source: str = field(metadata=json_key("tests"))
    is_upper_bound: bool
    attempts: int = 0
    percentile: float | None = None
    percentile_low: float | None = None
    percentile_high: float | None = None
    table: str = ""
    contests: tuple[StoredContest, ...] = ()

    @property
    def summary_line(self) -> str:
        """The rating with its interval, its percentile, and the source of the tests, in one line."""
        value = f"{self.rating:.0f} ({_range(self.low, self.high, 0)})"
        tests = f"tests: {self.tests_source}{', an upper bound' if self.is_upper_bound else ''}"
        percentiles = f"{self.percentile:.1f} ({_range(self.percentile_low, self.percentile_high, 1)})"
        what = f"over {len(self.contests)} contests with {self.attempts} attempts"
        return f"rating {value} {what}, percentile {percentiles} of {self.table}; {tests}"

    @property
    def remarks(self) -> list[str]:
        """What else has to be known of the rating, as clauses."""
        remarks = []
        if self.is_upper_bound:
            remarks.append(
                "the tests are the examples of statements, which wrong programs pass, too, so the rating is an upper "
                "bound"
            )
        if n_left := sum(contest.n_problems - contest.n_judged for contest in self.contests):
            remarks.append(f"{n_left} problems of these contests were not evaluated and count as not solved")
        return [*remarks, "it is the mean over all orders of the samples"]


def stored_ratings(content: Mapping[str, Any]) -> tuple[StoredRating, ...]:
    """Read the ratings of a result file, the best known one first; most have none. Raises ValueError."""
    return tuple(from_json(StoredRating, entry, ignore_unknown=True) for entry in content.get("ratings") or ())


def rating_lines(ratings: Sequence[StoredRating]) -> list[str]:
    """Return what is printed below the numbers of an evaluation: the rating that says most, and what it means."""
    return (
        [f"Codeforces {ratings[0].summary_line}", *(f"  {remark}" for remark in ratings[0].remarks)] if ratings else []
    )


def _range(low: float | None, high: float | None, digits: int) -> str:
    return "no interval" if low is None or high is None else f"{low:.{digits}f}-{high:.{digits}f}"
