"""In which attempt a model solves a problem, over all orders of its samples.

CodeElo takes the samples of a problem as successive attempts in the order in which they were drawn, and each wrong
attempt before the first right one costs points. The samples are independent, so their order is chance alone, but it can
move a rating by hundreds of points. So ratings here are averages over all orders.

MERGED The share of users with a lower rating. Tables of ratings differ, so a percentile always names its table.

MERGED The rating that a score in a contest is worth, as CodeElo computes it (Quan et al. 2025, arXiv:2501.01257).

It is the highest rating of a participant who would be expected to reach this rank or a worse one. Two things differ
from Codeforces' own rules, and are kept so that ratings can be compared with published ones:

1. The rank counts from 0, so it is better by one than on Codeforces.
2. Points do not decay with the time that a participant takes.

MERGED The rating of a model over contests, with its intervals.

Each contest is rated by itself, and the rating of the model is the mean over contests, as in CodeElo. The interval is
that of a bootstrap over contests; it contains what other samples of the model would change. The order of the samples is
chance that can be removed: `rating` is the average over all orders, `in_order` is the rating in the order in which the
samples were drawn, as CodeElo and DeepCoder publish it, and `order_deviation` says how far such a rating typically is
from the average.

MERGED The rating by problem difficulty: which rating fits best to the problems that a model solved, given their ratings.

Codeforces rates a problem such that a participant of the same rating solves it with a probability of one half. So
P(solve) = 1 / (1 + 10^((difficulty - rating) / 400)), and the rating is the one that makes the verdicts most likely. It
needs no standings of contests, and does not depend on an order of attempts. It is not the rating of a contest and must
not be compared with one.

MERGED What an evaluation says about the rating of its model: by contests if their standings are there, and by problem
difficulty if the difficulties of problems are known.
"""

import json
import logging
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import accumulate
from math import comb, isfinite, log10, nan, sqrt, tanh
from operator import mul
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any, Self

from curate.errors import CurateError
from train.evaluation.codeforces.contests import (
    Contest,
    ContestMetadata,
    ContestProblem,
    default_path,
    problem_key,
    problem_keys_or_none,
    read_contests,
)
from train.evaluation.results.ratings import BY_CONTESTS, BY_DIFFICULTY
from train.evaluation.statistics.intervals import bootstrap_interval
from train.evaluation.statistics.outcomes import ProblemOutcomes, tests_source

Score = tuple[float, float]  # points and penalty
_POINTS_PER_WRONG = 50  # lost for each wrong attempt, if problems have points
_PENALTY_PER_WRONG = 10  # minutes for each wrong attempt, if solved problems are counted


def count_wrong_attempts(bits: Iterable[bool | None]) -> int | None:
    """Return the number of wrong attempts before the first right one, in the order of the samples.

    It is None if no sample is right. Samples without a verdict are not attempts.
    """
    known = [bit for bit in bits if bit is not None]
    return known.index(True) if True in known else None


def first_right_probabilities(n: int, n_correct: int) -> dict[int | None, float]:
    """Return the probability of each number of wrong attempts before the first right one, over all orders of n samples.

    The key None stands for the case that no sample is right. Raises ValueError for impossible numbers.
    """
    if not 0 <= n_correct <= n:
        raise ValueError(f"{n_correct} of {n} samples cannot be right")
    if not n_correct:
        return {None: 1.0}
    n_wrong = n - n_correct
    # after j wrong attempts and a right one, n - j - 1 samples remain, among them n_wrong - j wrong ones
    return {j: comb(n - j - 1, n_wrong - j) / comb(n, n_wrong) for j in range(n_wrong + 1)}


def score_after(problem: ContestProblem, n_wrong: int | None) -> Score:
    """Return what a problem contributes to the score if it is solved after so many wrong attempts; None: never."""
    if n_wrong is None:
        return (0.0, 0.0)
    if problem.points is None:
        return (1.0, float(_PENALTY_PER_WRONG * n_wrong))
    return (max(0.0, problem.points - _POINTS_PER_WRONG * n_wrong), 0.0)


def score_probabilities(
    problems: Sequence[ContestProblem], samples: Mapping[str, tuple[int, int]]
) -> dict[Score, float]:
    """Return the probability of each score in a contest, over all orders of the samples.

    samples: for the index of a problem, the number of samples with a verdict and of right ones. A problem that is
    missing is not solved.
    """
    scores = {(0.0, 0.0): 1.0}
    for problem in problems:
        longer: dict[Score, float] = {}
        for n_wrong, chance in first_right_probabilities(*samples.get(problem.index, (0, 0))).items():
            points, penalty = score_after(problem, n_wrong)
            for (points_before, penalty_before), chance_before in scores.items():
                score = (points_before + points, penalty_before + penalty)
                longer[score] = longer.get(score, 0.0) + chance * chance_before
        scores = longer
    return scores


def score_in_order(problems: Sequence[ContestProblem], bits: Mapping[str, Sequence[bool | None]]) -> Score:
    """Return the score in a contest if the samples are attempts in the order in which they were drawn."""
    gains = [score_after(problem, count_wrong_attempts(bits.get(problem.index, ()))) for problem in problems]
    return sum(points for points, _ in gains), sum(penalty for _, penalty in gains)


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


_N_RESAMPLES = 10_000  # sets of contests for the interval


@dataclass(frozen=True, slots=True)
class ContestRating:
    """The rating of a model in one contest.

    n_problems       problems of the contest
    n_judged         those for which the model has a verdict; the others count as not solved
    rating           mean over all orders of the samples
    order_deviation  standard deviation over orders
    in_order         rating in the order in which the samples were drawn
    """

    contest: int
    n_problems: int
    n_judged: int
    rating: float
    order_deviation: float
    in_order: int


@dataclass(frozen=True, slots=True)
class ModelRating:
    """The rating of a model.

    rating           mean over contests, averaged over all orders of the samples
    low, high        bounds of its 95% confidence interval over contests; nan for one contest
    order_deviation  standard deviation of the rating in one order of the samples
    in_order         rating in the order in which the samples were drawn
    percentile       users with a lower rating than `rating`, in percent
    percentile_low, percentile_high  the same for the bounds
    table            name of the table of percentiles
    contests         the rating in each contest
    left_out         contests with too few rated participants, and those of which no problem has a verdict
    """

    rating: float
    low: float
    high: float
    order_deviation: float
    in_order: float
    percentile: float
    percentile_low: float
    percentile_high: float
    table: str
    contests: tuple[ContestRating, ...]
    left_out: tuple[int, ...]


def rate_model(
    outcomes: Iterable[ProblemOutcomes], contests: Sequence[Contest], table: PercentileTable, *, seed: int = 0
) -> ModelRating:
    """Return the rating of a model from the verdicts of its samples.

    outcomes  of the problems of these contests, with ids such as 1971A
    seed      of the bootstrap; the result is the same for the same seed

    Raises CurateError if an id is not that of a Codeforces problem, if two are the same, or if no contest can be rated.
    """
    of_contest = _by_contest(outcomes)
    rated = [contest for contest in contests if is_rated(contest) and _has_verdict(contest, of_contest)]
    if not rated:
        raise CurateError("No problem with a verdict belongs to a contest with standings. Fetch the standings first.")
    found = tuple(rate_in_contest(contest, of_contest[contest.id]) for contest in rated)
    values = [rating.rating for rating in found]
    mean = fmean(values)
    low, high = (
        bootstrap_interval(values, fmean, n_resamples=_N_RESAMPLES, seed=seed) if len(values) > 1 else (nan, nan)
    )
    return ModelRating(
        rating=mean,
        low=low,
        high=high,
        order_deviation=sqrt(sum(rating.order_deviation**2 for rating in found)) / len(found),
        in_order=fmean(rating.in_order for rating in found),
        percentile=table.percentile(mean),
        percentile_low=table.percentile(low) if len(found) > 1 else nan,
        percentile_high=table.percentile(high) if len(found) > 1 else nan,
        table=table.name,
        contests=found,
        left_out=tuple(contest.id for contest in contests if contest not in rated),
    )


def rate_in_contest(contest: Contest, problems: Mapping[str, ProblemOutcomes]) -> ContestRating:
    """Return the rating of a model in one contest, for the outcomes of its problems by their index."""
    judged = {problem.index: problems[problem.index] for problem in contest.problems if problem.index in problems}
    counts = {index: (outcome.n, outcome.n_correct) for index, outcome in judged.items()}
    chances = score_probabilities(contest.problems, counts)
    in_order = score_in_order(contest.problems, {index: outcome.correct for index, outcome in judged.items()})
    worth = rate_scores(contest, {*chances, in_order})
    mean = sum(chance * worth[score] for score, chance in chances.items())
    variance = sum(chance * (worth[score] - mean) ** 2 for score, chance in chances.items())
    n_judged = sum(n > 0 for n, _ in counts.values())
    return ContestRating(contest.id, len(contest.problems), n_judged, mean, sqrt(variance), worth[in_order])


def _by_contest(outcomes: Iterable[ProblemOutcomes]) -> dict[int, dict[str, ProblemOutcomes]]:
    of_contest: dict[int, dict[str, ProblemOutcomes]] = {}
    for problem in outcomes:
        contest, index = problem_key(problem.id)
        problems = of_contest.setdefault(contest, {})
        if index in problems:
            raise CurateError(f"The problem {problem.id} is there twice. Evaluate on a set without repeated problems.")
        problems[index] = problem
    return of_contest


def _has_verdict(contest: Contest, of_contest: Mapping[int, Mapping[str, ProblemOutcomes]]) -> bool:
    problems = of_contest.get(contest.id, {})
    return any(problem.index in problems and problems[problem.index].n for problem in contest.problems)


_SLOPE = math.log(10) / 400
_Z = NormalDist().inv_cdf(0.975)
_DIFFICULTY_RATING_N_RESAMPLES = 1000  # sets of problems for the interval
_MIN_PROBLEMS = 10  # problems
_MAX_STEPS = 100
_EXACT = 1e-9  # rating points


@dataclass(frozen=True, slots=True)
class Prior:
    """A normal distribution of ratings."""

    mean: float
    deviation: float


PRIOR = Prior(1500, 500)  # for models that solve all or nothing, whose likelihood has no maximum


@dataclass(frozen=True, slots=True)
class SolvedProblem:
    """How many of the samples of a problem are right. n counts the samples with a verdict."""

    difficulty: int
    n: int
    n_correct: int


@dataclass(frozen=True, slots=True)
class DifficultyRating:
    """A rating by problem difficulty.

    error       standard error, if all samples are independent
    low, high   bounds of the 95% confidence interval over problems, from a seeded bootstrap; wider than the error says
                if some problems are easier for the model than their difficulty says, and others harder. For fewer
                than ten problems, and with the prior, they are 1.96 errors away from the rating.
    with_prior  whether the prior was needed, because all samples are right or all are wrong
    """

    rating: float
    error: float
    low: float
    high: float
    with_prior: bool


def solved_problems(outcomes: Iterable[ProblemOutcomes]) -> list[SolvedProblem]:
    """Return the problems that have a verdict and whose difficulty is a rating."""
    return [
        SolvedProblem(problem.metadata.difficulty, problem.n, problem.n_correct)
        for problem in outcomes
        if isinstance(problem.metadata.difficulty, int) and problem.n
    ]


def rate_by_difficulty(problems: Sequence[SolvedProblem], *, seed: int = 0) -> DifficultyRating:
    """Return the rating that fits best to these problems, of which there must be at least one.

    seed: of the bootstrap; the result is the same for the same seed. Raises ValueError without problems.
    """
    if not problems:
        raise ValueError("a rating needs at least one problem")
    prior = _prior_if_needed(problems)
    rating, error = likeliest_rating(problems, prior)
    low, high = _interval(problems, rating, error, with_prior=prior is not None, seed=seed)
    return DifficultyRating(rating, error, low, high, prior is not None)


def likeliest_rating(
    problems: Sequence[SolvedProblem], prior: Prior | None = None, *, start: float | None = None
) -> tuple[float, float]:
    """Return the rating that is most likely, and its standard error if all samples are independent.

    prior  must be given if all samples are right or all are wrong
    start  a rating to begin the search with, which makes it faster if it is near

    Raises ValueError if there is no maximum without a prior.
    """
    if prior is None and _prior_if_needed(problems) is not None:
        raise ValueError("all samples are right, or all are wrong: their rating needs a prior")
    levels = _levels(problems)
    n = sum(n for _, n, _ in levels)
    margin = 400 * log10(n + 1) if prior is None else prior.deviation**2 * _SLOPE * n
    middle = levels[len(levels) // 2][0] if prior is None else prior.mean
    low, high = min(levels[0][0], middle) - margin, max(levels[-1][0], middle) + margin  # the maximum lies between
    rating = middle if start is None else min(max(start, low), high)
    for _ in range(_MAX_STEPS):
        slope, curvature = _derivatives(levels, rating, prior)
        low, high = (rating, high) if slope > 0 else (low, rating)
        better = rating + slope / curvature
        if not low < better < high:
            better = (low + high) / 2
        if abs(better - rating) < _EXACT:
            break
        rating = better
    return rating, 1 / sqrt(_derivatives(levels, rating, prior)[1])


def _levels(problems: Sequence[SolvedProblem]) -> list[tuple[int, int, int]]:
    """Return each difficulty, ascending, with the numbers of samples and of right samples."""
    levels: dict[int, tuple[int, int]] = {}
    for problem in problems:
        n, n_correct = levels.get(problem.difficulty, (0, 0))
        levels[problem.difficulty] = n + problem.n, n_correct + problem.n_correct
    return [(difficulty, *levels[difficulty]) for difficulty in sorted(levels)]


def _derivatives(levels: Sequence[tuple[int, int, int]], rating: float, prior: Prior | None) -> tuple[float, float]:
    """Return the first derivative of the logarithm of the likelihood, and the second with the opposite sign."""
    slope, curvature = (
        (0.0, 0.0) if prior is None else ((prior.mean - rating) / prior.deviation**2, prior.deviation**-2)
    )
    for difficulty, n, n_correct in levels:
        chance = (1 + tanh((rating - difficulty) * _SLOPE / 2)) / 2  # the logistic function, which cannot overflow
        slope += _SLOPE * (n_correct - n * chance)
        curvature += _SLOPE**2 * n * chance * (1 - chance)
    return slope, curvature


def _prior_if_needed(problems: Sequence[SolvedProblem]) -> Prior | None:
    n_correct = sum(problem.n_correct for problem in problems)
    return PRIOR if n_correct in (0, sum(problem.n for problem in problems)) else None


def _interval(
    problems: Sequence[SolvedProblem], rating: float, error: float, *, with_prior: bool, seed: int
) -> tuple[float, float]:
    if len(problems) < _MIN_PROBLEMS or with_prior:  # the sets that are drawn would be too much alike
        return rating - _Z * error, rating + _Z * error

    def estimate(drawn: Sequence[SolvedProblem]) -> float:
        return likeliest_rating(drawn, _prior_if_needed(drawn), start=rating)[0]

    return bootstrap_interval(problems, estimate, n_resamples=_DIFFICULTY_RATING_N_RESAMPLES, seed=seed)


log = logging.getLogger(__name__)

_OURS = "codeforces/"  # how the ids of the suite's problems begin
_EXAMPLES = "examples"


@dataclass(frozen=True, slots=True)
class Rating:
    """The rating of a model.

    tests_source    where the tests of the problems come from
    attempts        samples of a problem: with more attempts, a model has a higher rating by contests
    contest_rating  None: no contest of the problems has known standings
    by_difficulty   None: no problem has a known difficulty
    n_difficulties problems whose difficulty is known
    """

    tests_source: str
    attempts: int
    contest_rating: ModelRating | None
    by_difficulty: DifficultyRating | None
    n_difficulties: int

    @property
    def is_upper_bound(self) -> bool:
        """Whether some tests are examples of statements, which wrong programs pass, too."""
        return _EXAMPLES in self.tests_source

    def to_json(self) -> list[dict[str, Any]]:
        """Return the ratings as a result file has them, the one by contests first. An unknown number is null."""
        about = {"suite": "codeforces", "tests": self.tests_source, "is_upper_bound": self.is_upper_bound}
        ratings: list[dict[str, Any]] = []
        if self.contest_rating is not None:
            ratings.append(about | {"by": BY_CONTESTS, "attempts": self.attempts} | asdict(self.contest_rating))
        if self.by_difficulty is not None:
            ratings.append(about | {"by": BY_DIFFICULTY, "problems": self.n_difficulties} | asdict(self.by_difficulty))
        return [{name: _known(value) for name, value in rating.items()} for rating in ratings]


def known_contests(path: Path | None, ids: Iterable[str]) -> list[Contest]:
    """Read the contests with which problems of these ids can be rated; none if the problems are of another suite.

    path: the file of contests; None: the one that was fetched to the usual place, if any was

    Raises CurateError if the named file is not one of contests. If the file in the usual place is not, a warning says
    so: the user did not name it, and it may be needed only when all samples are drawn.
    """
    if not any(id.startswith(_OURS) for id in ids):
        return []
    if path is not None:
        return read_contests(path)
    try:
        return read_contests(default_path()) if default_path().is_file() else []
    except CurateError as error:
        log.warning("there is no rating by contests: %s", error)
        return []


def ratings_as_json(outcomes: Sequence[ProblemOutcomes], *, seed: int = 0) -> list[dict[str, Any]]:
    """Return the ratings of an evaluation for its result file, with the contests in the usual place."""
    rating = rate(outcomes, known_contests(None, (problem.id for problem in outcomes)), seed=seed)
    return [] if rating is None else rating.to_json()


def rate(outcomes: Iterable[ProblemOutcomes], contests: Sequence[Contest], *, seed: int = 0) -> Rating | None:
    """Return the rating of a model; None if none of the problems is of the suite `codeforces`.

    contests  those whose standings are known
    seed      of the intervals' bootstraps
    """
    problems = [problem for problem in outcomes if problem.id.startswith(_OURS)]
    if not problems:
        return None
    ratable = {contest.id for contest in contests if is_rated(contest)}
    posed = [
        replace(problem, id=f"{contest}/{index}")
        for (contest, index), problem in _as_posed(problems).items()
        if contest in ratable
    ]
    known = ContestMetadata(contests)
    solved = solved_problems(
        replace(problem, metadata=known.fill_missing(problem.id, problem.metadata)) for problem in problems
    )
    return Rating(
        tests_source=tests_source(problems) or "unknown",
        attempts=max(len(problem.correct) for problem in problems),
        contest_rating=rate_model(posed, contests, deepcoder_2024(), seed=seed)
        if any(map(_rating_has_verdict, posed))
        else None,
        by_difficulty=rate_by_difficulty(solved, seed=seed) if solved else None,
        n_difficulties=len(solved),
    )


def _as_posed(problems: Sequence[ProblemOutcomes]) -> dict[tuple[int, str], ProblemOutcomes]:
    """Return the problems by contest and index. One that was posed in several contests stands for itself in each."""
    keys = [problem_keys_or_none(problem.id) for problem in problems]
    posed = {own[0]: problem for own, problem in zip(keys, problems, strict=True) if own}
    for others, problem in zip(keys, problems, strict=True):
        for key in others[1:]:
            posed.setdefault(key, problem)
    return posed


def _rating_has_verdict(problem: ProblemOutcomes) -> bool:
    return problem.n > 0


def _known(value: Any) -> Any:
    """Return a value as JSON has it, with null for a number that is unknown."""
    if isinstance(value, dict):
        return {name: _known(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
