"""The share of users with a lower rating. Tables of ratings differ, so a percentile always names its table."""

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Self

_RATINGS_2024 = Path(__file__).with_name("ratings_2024.json")


@dataclass(frozen=True, slots=True)
class PercentileTable:
    """How many users have which rating.

    name     what a result calls the table
    ratings  the ratings, ascending
    n_below  for each of them the number of users with a lower rating, and at the end the number of all users
    """

    name: str
    ratings: tuple[int, ...] = field(repr=False)
    n_below: tuple[int, ...] = field(repr=False)

    @classmethod
    def of(cls, name: str, n_users: Mapping[int, int]) -> Self:
        """Return the table of these numbers of users for each rating. Raises ValueError if there are no users."""
        ratings = tuple(sorted(n_users))
        n_below = tuple(accumulate((n_users[rating] for rating in ratings), initial=0))
        if not n_below[-1]:
            raise ValueError(f"the table {name} has no users")
        return cls(name, ratings, n_below)

    def percentile(self, rating: float) -> float:
        """Return the share of users with a lower rating, in percent, with one digit after the point."""
        return round(100 * self.n_below[bisect_left(self.ratings, rating)] / self.n_below[-1], 1)


@cache
def deepcoder_2024() -> PercentileTable:
    """Return the table that DeepCoder's percentiles are from: 89,352 users in 2024. See SOURCES.md."""
    n_users = json.loads(_RATINGS_2024.read_text())
    return PercentileTable.of("ratings_2024 (DeepCoder)", {int(rating): n for rating, n in n_users.items()})
