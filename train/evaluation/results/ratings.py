"""Ratings in a result file, and in words. train/evaluation/codeforces/rating.py makes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any, Self

BY_CONTESTS, BY_DIFFICULTY = "contests", "problem difficulty"
_UPPER_BOUND = "the examples of statements, which wrong programs pass, too, so the rating is an upper bound"


@dataclass(frozen=True, slots=True)
class StoredRating:
    """A rating as a result file has it. A number that is unknown, or that this kind of rating has not, is nan.

    basis            BY_CONTESTS or BY_DIFFICULTY
    tests_source     where the tests come from
    is_upper_bound   whether wrong programs pass these tests
    n                contests or problems that the rating is of
    attempts         samples of a problem, if the rating is by contests
    percentile       users with a lower rating, in percent; with the bounds for `low` and `high`
    table            of percentiles
    in_order         rating in the order in which the samples were drawn
    order_deviation  standard deviation over orders
    n_not_judged     problems of the contests that were not evaluated
    error            standard error
    with_prior       whether all samples are right or all are wrong
    """

    basis: str
    rating: float
    low: float
    high: float
    tests_source: str
    is_upper_bound: bool
    n: int
    attempts: int = 0
    percentile: float = nan
    percentile_low: float = nan
    percentile_high: float = nan
    table: str = ""
    in_order: float = nan
    order_deviation: float = nan
    n_not_judged: int = 0
    error: float = nan
    with_prior: bool = False

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Self:
        """Read a rating of a result file. Raises KeyError, TypeError or ValueError if it is not one."""
        rating = cls(
            basis=str(entry["by"]),
            rating=_number(entry["rating"]),
            low=_number(entry["low"]),
            high=_number(entry["high"]),
            tests_source=str(entry["tests"]),
            is_upper_bound=bool(entry["is_upper_bound"]),
            n=0,
        )
        if rating.basis != BY_CONTESTS:
            n, error = int(entry["problems"]), _number(entry["error"])
            return replace(rating, n=n, error=error, with_prior=bool(entry["with_prior"]))
        contests = entry["contests"]
        return replace(
            rating,
            n=len(contests),
            attempts=int(entry["attempts"]),
            percentile=_number(entry["percentile"]),
            percentile_low=_number(entry["percentile_low"]),
            percentile_high=_number(entry["percentile_high"]),
            table=str(entry["table"]),
            in_order=_number(entry["in_order"]),
            order_deviation=_number(entry["order_deviation"]),
            n_not_judged=sum(int(one["n_problems"]) - int(one["n_judged"]) for one in contests),
        )

    @property
    def summary_line(self) -> str:
        """The rating with its interval, its percentile or its error, and the source of the tests, in one line."""
        value = f"{self.rating:.0f} ({_range(self.low, self.high, 0)})"
        tests = f"tests: {self.tests_source}{', an upper bound' if self.is_upper_bound else ''}"
        if self.basis != BY_CONTESTS:
            return f"rating by problem difficulty {value}, standard error {self.error:.0f}; {tests}"
        percentiles = f"{self.percentile:.1f} ({_range(self.percentile_low, self.percentile_high, 1)})"
        what = f"over {self.n} contests with {self.attempts} attempts"
        return f"rating {value} {what}, percentile {percentiles} of {self.table}; {tests}"

    @property
    def remarks(self) -> list[str]:
        """What else has to be known of the rating, as clauses."""
        remarks = []
        if self.is_upper_bound:
            remarks.append(f"the tests are {_UPPER_BOUND}")
        if self.basis != BY_CONTESTS:
            if self.with_prior:
                remarks.append("all samples are right or all are wrong, so the rating is mostly that of a prior")
            fetch = "for that, `curate evaluations fetch codeforces` once"
            return [*remarks, f"it cannot be compared with a rating by contests; {fetch}"]
        if self.n_not_judged:
            remarks.append(f"{self.n_not_judged} problems of these contests were not evaluated and count as not solved")
        remarks.append(
            f"it is the mean over all orders of the samples: in their own order it is {self.in_order:.0f}, and orders "
            f"have a standard deviation of {self.order_deviation:.0f}"
        )
        return remarks


def stored_ratings(content: Mapping[str, Any]) -> tuple[StoredRating, ...]:
    """Read the ratings of a result file, the best known one first; most have none."""
    return tuple(map(StoredRating.from_json, content.get("ratings") or ()))


def rating_lines(ratings: Sequence[StoredRating]) -> list[str]:
    """Return what is printed below the numbers of an evaluation: the rating that says most, and what it means."""
    return (
        [f"Codeforces {ratings[0].summary_line}", *(f"  {remark}" for remark in ratings[0].remarks)] if ratings else []
    )


def _number(value: Any) -> float:
    return nan if value is None else float(value)


def _range(low: float, high: float, digits: int) -> str:
    return "no interval" if low != low or high != high else f"{low:.{digits}f}-{high:.{digits}f}"
