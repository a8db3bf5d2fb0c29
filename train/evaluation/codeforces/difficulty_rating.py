"""The rating by problem difficulty: which rating fits best to the problems that a model solved, given their ratings.

Codeforces rates a problem such that a participant of the same rating solves it with a probability of one half. So
P(solve) = 1 / (1 + 10^((difficulty - rating) / 400)), and the rating is the one that makes the verdicts most likely. It
needs no standings of contests, and does not depend on an order of attempts. It is not the rating of a contest and must
not be compared with one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log, log10, sqrt, tanh
from statistics import NormalDist

from train.evaluation.statistics.bootstrap import bootstrap_interval
from train.evaluation.statistics.outcomes import ProblemOutcomes

_SLOPE = log(10) / 400
_Z = NormalDist().inv_cdf(0.975)
_N_RESAMPLES = 1000  # sets of problems for the interval
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

    return bootstrap_interval(problems, estimate, n_resamples=_N_RESAMPLES, seed=seed)
