"""The rating of a model over contests, with its intervals.

Each contest is rated by itself, and the rating of the model is the mean over contests, as in CodeElo. The interval is
that of a bootstrap over contests; it contains what other samples of the model would change. The order of the samples is
chance that can be removed: `rating` is the average over all orders, `in_order` is the rating in the order in which the
samples were drawn, as CodeElo and DeepCoder publish it, and `order_deviation` says how far such a rating typically is
from the average.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from statistics import fmean

from curate.errors import CurateError
from train.evaluation.codeforces.attempts import score_in_order, score_probabilities
from train.evaluation.codeforces.contest_rating import is_rated, rate_scores
from train.evaluation.codeforces.contests import Contest, problem_key
from train.evaluation.codeforces.percentiles import PercentileTable
from train.evaluation.statistics.bootstrap import bootstrap_interval
from train.evaluation.statistics.outcomes import ProblemOutcomes

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
