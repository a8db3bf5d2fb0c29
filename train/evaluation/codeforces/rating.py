"""The rating of a model over Codeforces contests, as CodeElo computes it (Quan et al. 2025, arXiv:2501.01257).

CodeElo takes a problem's samples as successive attempts; each wrong attempt before the first correct attempt costs
points. The order of samples is arbitrary, but can change a rating by hundreds of points. So ratings are averages over
all orders.

The rating for a score is the highest rating whose expected rank is not better than the score's rank. As in published
ratings, two rules differ from Codeforces': ranks count from 0 instead of 1, and points do not decay with time.

The model's rating is the mean over contests. Its interval is a bootstrap over contests.
"""

import json
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from math import comb
from operator import mul
from pathlib import Path
from statistics import fmean
from typing import Self

from curate.errors import CurateError
from curate.json_records import json_key
from train.evaluation.codeforces.contests import (
    Contest,
    ContestProblem,
    get_default_contests_path,
    parse_problem_key,
    parse_problem_keys,
    read_contests,
)
from train.evaluation.statistics.intervals import compute_bootstrap_interval
from train.evaluation.statistics.outcomes import ProblemOutcomes, describe_tests_source

log = logging.getLogger(__name__)

Score = tuple[float, float]  # (points, penalty)

_ID_PREFIX = "codeforces/"  # prefix of the ids of the suite's problems
_EXAMPLES = "examples"  # value of tests_source for tests that wrong programs may pass
_POINTS_PER_WRONG = 50  # deduction for each wrong attempt, in contests with points
_PENALTY_PER_WRONG = 10  # minutes for each wrong attempt, in contests that count solved problems
_MIN_PARTICIPANTS = 201  # minimum number of rated participants of a contest that is included
_N_RESAMPLES = 10_000  # bootstrap resamples of the contests
_RATINGS_2024 = Path(__file__).with_name("ratings_2024.json")


@dataclass(frozen=True, slots=True)
class PercentileTable:
    """The distribution of users over ratings. Percentiles of different tables are not comparable.

    name     name of the table in a result
    n_below  number of users below each rating, then the number of all users
    """

    name: str
    ratings: tuple[int, ...] = field(repr=False)
    n_below: tuple[int, ...] = field(repr=False)

    @classmethod
    def from_counts(cls, name: str, n_users: Mapping[int, int]) -> Self:
        """Build the table from the number of users with each rating. Raises ValueError without users."""
        ratings = tuple(sorted(n_users))
        n_below = tuple(accumulate((n_users[rating] for rating in ratings), initial=0))
        if not n_below[-1]:
            raise ValueError(f"the table {name} has no users")
        return cls(name, ratings, n_below)

    def compute_percentile(self, rating: float) -> float:
        """Return the percentage of users with a lower rating, rounded to one decimal."""
        return round(100 * self.n_below[bisect_left(self.ratings, rating)] / self.n_below[-1], 1)


@cache
def load_deepcoder_percentiles() -> PercentileTable:
    """Load DeepCoder's percentile table of 89,352 users in 2024; see SOURCES.md."""
    n_users = json.loads(_RATINGS_2024.read_text())
    return PercentileTable.from_counts("ratings_2024 (DeepCoder)", {int(rating): n for rating, n in n_users.items()})


def compute_wrong_attempt_probabilities(n: int, n_correct: int) -> dict[int | None, float]:
    """Return the distribution of the number of wrong attempts before the first correct attempt, over all sample orders.

    The key None stands for no correct sample. Raises ValueError for impossible numbers.
    """
    if not 0 <= n_correct <= n:
        raise ValueError(f"{n_correct} of {n} samples cannot be correct")
    if not n_correct:
        return {None: 1.0}
    n_wrong = n - n_correct
    # After j wrong attempts and a correct one, n - j - 1 samples remain, and n_wrong - j of them are wrong.
    return {j: comb(n - j - 1, n_wrong - j) / comb(n, n_wrong) for j in range(n_wrong + 1)}


def compute_score(problem: ContestProblem, n_wrong: int | None) -> Score:
    """Return the score for one problem, solved after `n_wrong` wrong attempts; None: unsolved."""
    if n_wrong is None:
        return (0.0, 0.0)
    if problem.points is None:
        return (1.0, float(_PENALTY_PER_WRONG * n_wrong))
    return (max(0.0, problem.points - _POINTS_PER_WRONG * n_wrong), 0.0)


def compute_score_probabilities(
    problems: Sequence[ContestProblem], samples: Mapping[str, tuple[int, int]]
) -> dict[Score, float]:
    """Return the probability of each score in a contest, over all orders of the samples.

    samples: (number of judged samples, number of correct ones) by problem index; missing problems are unsolved
    """
    scores = {(0.0, 0.0): 1.0}
    for problem in problems:
        extended: dict[Score, float] = {}
        for n_wrong, probability in compute_wrong_attempt_probabilities(*samples.get(problem.index, (0, 0))).items():
            points, penalty = compute_score(problem, n_wrong)
            for (points_before, penalty_before), probability_before in scores.items():
                score = (points_before + points, penalty_before + penalty)
                extended[score] = extended.get(score, 0.0) + probability * probability_before
        scores = extended
    return scores


def is_rated(contest: Contest) -> bool:
    return len(contest.scores) >= _MIN_PARTICIPANTS


def compute_rank(contest: Contest, score: Score) -> int:
    """Return the number of rated participants with at least as good a score."""
    points, penalty = score
    return bisect_right(contest.scores, (-points, penalty), key=lambda row: (-row[0], row[1]))


def rate_scores(contest: Contest, scores: Iterable[Score]) -> dict[Score, int]:
    """Return the rating for each score in this contest."""
    seeds = _SeedTable(contest.old_ratings)
    return {score: seeds.find_rating(compute_rank(contest, score)) for score in scores}


class _SeedTable:
    """The expected rank (seed) of each rating among the participants of a contest."""

    def __init__(self, old_ratings: tuple[int, ...]) -> None:
        self._lowest, self._highest = old_ratings[-1], old_ratings[0]
        # Number of participants with each rating, from the lowest rating.
        self._n_rated = [0] * (self._highest - self._lowest + 1)
        for rating in old_ratings:
            self._n_rated[rating - self._lowest] += 1
        self._seed_by_rating: dict[int, float] = {}
        self._rating_by_rank: dict[int, int] = {}

    def find_rating(self, rank: int) -> int:
        """Return the highest rating, at least 0, with a seed of at least this rank."""
        if rank not in self._rating_by_rank:
            low, high = 0, max(0, self._highest) + 100
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if self._compute_seed(middle) < rank else (middle, high)
            self._rating_by_rank[rank] = low
        return self._rating_by_rank[rank]

    def _compute_seed(self, rating: int) -> float:
        if rating not in self._seed_by_rating:
            losses = map(_compute_loss_probability, range(rating - self._lowest, rating - self._highest - 1, -1))
            self._seed_by_rating[rating] = 1 + sum(map(mul, self._n_rated, losses))
        return self._seed_by_rating[rating]


@cache
def _compute_loss_probability(advantage: int) -> float:
    """Return the Elo probability of losing with this advantage in rating."""
    return float(1 / (1 + 10 ** (advantage / 400)))


@dataclass(frozen=True, slots=True)
class ContestRating:
    """The rating of a model in one contest.

    n_judged  problems with a verdict; the others count as unsolved
    rating    mean over all orders of the samples
    """

    contest: int
    n_problems: int
    n_judged: int
    rating: float


@dataclass(frozen=True, slots=True)
class Rating:
    """The rating of a model in a result file.

    is_upper_bound   whether wrong programs may pass the tests
    basis            unit of the mean and the bootstrap: "contests"
    attempts         number of samples of a problem; more samples raise the rating
    rating           mean over contests and over all orders of the samples
    low, high        bounds of the 95% confidence interval of the rating; None for one contest
    percentile       percentage of users with a lower rating
    percentile_low, percentile_high  percentiles of the bounds of the rating
    table            name of the table of percentiles
    contests         rating in each contest
    unrated_contests  contests with too few rated participants, or without any verdict
    """

    suite: str
    tests_source: str = field(metadata=json_key("tests"))
    is_upper_bound: bool
    basis: str = field(metadata=json_key("by"))
    attempts: int
    rating: float
    low: float | None
    high: float | None
    percentile: float
    percentile_low: float | None
    percentile_high: float | None
    table: str
    contests: tuple[ContestRating, ...]
    unrated_contests: tuple[int, ...] = field(metadata=json_key("left_out"))

    @property
    def summary_line(self) -> str:
        """Return a line with the rating, its interval, percentile and source of tests."""
        value = f"{self.rating:.0f} ({_format_range(self.low, self.high, 0)})"
        tests = f"tests: {self.tests_source}{', an upper bound' if self.is_upper_bound else ''}"
        percentiles = f"{self.percentile:.1f} ({_format_range(self.percentile_low, self.percentile_high, 1)})"
        what = f"over {len(self.contests)} contests with {self.attempts} attempts"
        return f"rating {value} {what}, percentile {percentiles} of {self.table}; {tests}"

    @property
    def lines(self) -> list[str]:
        """Return the summary line, followed by caveats."""
        remarks = []
        if self.is_upper_bound:
            remarks.append(
                "the tests are the examples of statements, which wrong programs may pass, so the rating is an upper "
                "bound"
            )
        if n_left := sum(contest.n_problems - contest.n_judged for contest in self.contests):
            remarks.append(f"{n_left} problems of these contests were not evaluated and count as not solved")
        remarks.append("the rating is the mean over all orders of the samples")
        return [f"Codeforces {self.summary_line}", *(f"  {remark}" for remark in remarks)]


def _format_range(low: float | None, high: float | None, digits: int) -> str:
    return "no interval" if low is None or high is None else f"{low:.{digits}f}-{high:.{digits}f}"


def rate_model(
    outcomes: Sequence[ProblemOutcomes], contests: Sequence[Contest], table: PercentileTable, *, seed: int = 0
) -> Rating:
    """Rate a model by the verdicts on its samples.

    outcomes: outcomes of the contests' problems, with ids such as 1971A

    Raises CurateError if an id is invalid or repeated, or if no contest can be rated.
    """
    outcomes_by_contest: dict[int, dict[str, ProblemOutcomes]] = {}
    for problem in outcomes:
        contest_id, index = parse_problem_key(problem.id)
        problems = outcomes_by_contest.setdefault(contest_id, {})
        if index in problems:
            raise CurateError(f"The problem {problem.id} occurs twice. Evaluate on a set without repeated problems.")
        problems[index] = problem
    contest_ratings = [
        rate_contest(one, outcomes_by_contest[one.id])
        for one in contests
        if is_rated(one) and one.id in outcomes_by_contest
    ]
    found = tuple(rating for rating in contest_ratings if rating.n_judged)
    if not found:
        raise CurateError("No problem with a verdict belongs to a contest with standings. Fetch the standings first.")
    values = [rating.rating for rating in found]
    mean = fmean(values)
    low, high = (
        compute_bootstrap_interval(values, fmean, n_resamples=_N_RESAMPLES, seed=seed)
        if len(found) > 1
        else (None, None)
    )
    source = describe_tests_source(outcomes) or "unknown"
    return Rating(
        suite="codeforces",
        tests_source=source,
        is_upper_bound=_EXAMPLES in source,
        basis="contests",
        attempts=max(len(problem.correct) for problem in outcomes),
        rating=mean,
        low=low,
        high=high,
        percentile=table.compute_percentile(mean),
        percentile_low=None if low is None else table.compute_percentile(low),
        percentile_high=None if high is None else table.compute_percentile(high),
        table=table.name,
        contests=found,
        unrated_contests=tuple(one.id for one in contests if one.id not in {rating.contest for rating in found}),
    )


def rate_contest(contest: Contest, problems: Mapping[str, ProblemOutcomes]) -> ContestRating:
    judged = {problem.index: problems[problem.index] for problem in contest.problems if problem.index in problems}
    counts = {index: (outcome.n, outcome.n_correct) for index, outcome in judged.items()}
    probabilities = compute_score_probabilities(contest.problems, counts)
    rating_of_score = rate_scores(contest, probabilities)
    mean = sum(probability * rating_of_score[score] for score, probability in probabilities.items())
    return ContestRating(contest.id, len(contest.problems), sum(n > 0 for n, _ in counts.values()), mean)


def find_contests(path: Path | None, ids: Iterable[str]) -> list[Contest]:
    """Read the contests for a rating; none if the problems are of another suite.

    path: path of the contests file; None: the default path, if it exists

    Raises CurateError if the named file is no contests file. Logs a warning if the default file is missing or invalid.
    """
    if not any(id.startswith(_ID_PREFIX) for id in ids):
        return []
    if path is not None:
        return read_contests(path)
    if not get_default_contests_path().is_file():
        log.warning("there is no rating by contests: type `curate evaluations fetch codeforces` once")
        return []
    try:
        return read_contests(get_default_contests_path())
    except CurateError as error:
        log.warning("there is no rating by contests: %s", error)
        return []


def rate_evaluation(
    outcomes: Sequence[ProblemOutcomes], contests: Sequence[Contest] | None = None, *, seed: int = 0
) -> tuple[Rating, ...]:
    """Rate the model of an evaluation. Return one rating, or none if no problem belongs to a known contest.

    contests: contests with standings; None: the contests in the file at the default path
    """
    problems = [problem for problem in outcomes if problem.id.startswith(_ID_PREFIX)]
    if contests is None:
        contests = find_contests(None, (problem.id for problem in problems))
    ratable = {contest.id for contest in contests if is_rated(contest)}
    rated_problems = [
        replace(problem, id=f"{contest}/{index}")
        for (contest, index), problem in _group_by_contest(problems).items()
        if contest in ratable
    ]
    if not any(problem.n for problem in rated_problems):
        return ()
    source = describe_tests_source(problems) or "unknown"  # of all problems, including those outside these contests
    return (
        replace(
            rate_model(rated_problems, contests, load_deepcoder_percentiles(), seed=seed),
            tests_source=source,
            is_upper_bound=_EXAMPLES in source,
            attempts=max(len(problem.correct) for problem in problems),
        ),
    )


def _group_by_contest(problems: Sequence[ProblemOutcomes]) -> dict[tuple[int, str], ProblemOutcomes]:
    """Map each (contest, index) to its problem. A problem's primary key precedes other problems' further keys."""
    keys = [parse_problem_keys(problem.id) for problem in problems]
    rated_problems = {own[0]: problem for own, problem in zip(keys, problems, strict=True) if own}
    for others, problem in zip(keys, problems, strict=True):
        for key in others[1:]:
            rated_problems.setdefault(key, problem)
    return rated_problems
