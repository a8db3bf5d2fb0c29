"""The rating that a score in a contest is worth, as CodeElo computes it (Quan et al. 2025, arXiv:2501.01257).

It is the highest rating of a participant who would be expected to reach this rank or a worse one. Two things differ
from Codeforces' own rules, and are kept so that ratings can be compared with published ones:

1. The rank counts from 0, so it is better by one than on Codeforces.
2. Points do not decay with the time that a participant takes.
"""

from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from operator import mul

from train.evaluation.codeforces.attempts import Score
from train.evaluation.codeforces.contests import Contest

_AT_LEAST = 201  # rated participants; a contest with fewer is not rated


def is_rated(contest: Contest) -> bool:
    """Return whether the contest has enough rated participants for a rating."""
    return len(contest.scores) >= _AT_LEAST


def rank(contest: Contest, score: Score) -> int:
    """Return the number of rated participants whose points and penalty are at least as good."""
    points, penalty = score
    return bisect_right(contest.scores, (-points, penalty), key=lambda row: (-row[0], row[1]))


def rate_scores(contest: Contest, scores: Iterable[Score]) -> dict[Score, int]:
    """Return the rating that each score is worth in this contest."""
    seed = _Seed(contest.old_ratings)
    return {score: seed.rating(rank(contest, score)) for score in scores}


class _Seed:
    """The rank that a participant with a given rating is expected to reach, from the ratings of the others."""

    def __init__(self, old_ratings: tuple[int, ...]) -> None:
        self._lowest, self._highest = old_ratings[-1], old_ratings[0]
        self._n_rated = [0] * (self._highest - self._lowest + 1)  # participants of each rating, from the lowest
        for rating in old_ratings:
            self._n_rated[rating - self._lowest] += 1
        self._known: dict[int, float] = {}
        self._of_rank: dict[int, int] = {}

    def rating(self, rank: int) -> int:
        """Return the highest rating whose seed is at least this rank, at least 0."""
        if rank not in self._of_rank:
            low, high = 0, max(0, self._highest) + 100
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if self._seed(middle) < rank else (middle, high)
            self._of_rank[rank] = low
        return self._of_rank[rank]

    def _seed(self, rating: int) -> float:
        if rating not in self._known:
            losses = map(_chance_to_lose, range(rating - self._lowest, rating - self._highest - 1, -1))
            self._known[rating] = 1 + sum(map(mul, self._n_rated, losses))
        return self._known[rating]


@cache
def _chance_to_lose(advantage: int) -> float:
    """Return the probability to be behind a participant whose rating is lower by this advantage."""
    return float(1 / (1 + 10 ** (advantage / 400)))
