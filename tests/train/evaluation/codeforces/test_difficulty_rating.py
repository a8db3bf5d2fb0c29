"""The rating by problem difficulty is the most likely one."""

import random
from math import log, log10, sqrt
from statistics import fmean

import pytest
from made_outcomes import outcome

from train.evaluation.codeforces.rating import (
    PRIOR,
    SolvedProblem,
    likeliest_rating,
    rate_by_difficulty,
    solved_problems,
)

FIVE = [
    SolvedProblem(difficulty, 4, n)
    for difficulty, n in zip((800, 1200, 1600, 2000, 2400), (4, 3, 2, 1, 0), strict=True)
]


def test_five_problems_have_the_rating_that_was_computed_for_them():
    rating, error = likeliest_rating(FIVE)
    assert (round(rating, 1), round(error, 1)) == (1600.0, 131.7)
    rating, error = likeliest_rating(FIVE, PRIOR)
    assert (round(rating, 1), round(error, 1)) == (1593.5, 127.4)


def log_likelihood(problems, rating, prior):
    total = 0.0 if prior is None else -((rating - prior.mean) ** 2) / (2 * prior.deviation**2)
    for problem in problems:
        odds = 10 ** ((problem.difficulty - rating) / 400)
        total -= problem.n_correct * log(1 + odds) + (problem.n - problem.n_correct) * log(1 + 1 / odds)
    return total


@pytest.mark.parametrize("prior", [None, PRIOR])
@pytest.mark.parametrize("seed", range(5))
def test_no_other_rating_is_more_likely(seed, prior):
    rng = random.Random(seed)
    problems = [SolvedProblem(rng.randrange(800, 3600, 100), 8, rng.randint(0, 8)) for _ in range(rng.randint(1, 40))]
    rating, error = likeliest_rating(problems, prior)
    best = max((rating / 2 for rating in range(-4000, 14000)), key=lambda other: log_likelihood(problems, other, prior))
    assert abs(rating - best) <= 0.25
    step = 1.0
    middle, *sides = (log_likelihood(problems, rating + shift, prior) for shift in (0, -step, step))
    assert error == pytest.approx(1 / sqrt((2 * middle - sum(sides)) / step**2), rel=1e-3)


@pytest.mark.parametrize(("n_correct", "n"), [(1, 1000), (999, 1000)])
def test_the_maximum_is_found_where_it_is_far_away(n_correct, n):
    """One problem: P(solve) is the share, so the rating is known."""
    rating, _ = likeliest_rating([SolvedProblem(1500, n, n_correct)], start=9000)
    assert rating == pytest.approx(1500 + 400 * log10(n_correct / (n - n_correct)))


@pytest.mark.parametrize("difficulty", [-53, 800, 3500])
@pytest.mark.parametrize("share", [0, 1])
@pytest.mark.parametrize("n", [4, 100_000])
def test_the_maximum_is_found_with_the_prior_however_many_samples_there_are(difficulty, share, n):
    problem = SolvedProblem(difficulty, n, share * n)
    rating, _ = likeliest_rating([problem] * 50, PRIOR)
    expected = 1 / (1 + 10 ** ((difficulty - rating) / 400))
    pull_of_samples = log(10) / 400 * 50 * n * (share - expected)
    assert (rating - 1500) / 500**2 == pytest.approx(pull_of_samples, rel=1e-3)


def test_without_a_prior_all_or_nothing_has_no_rating():
    with pytest.raises(ValueError, match="needs a prior"):
        likeliest_rating([SolvedProblem(1500, 4, 4)])


@pytest.mark.parametrize("n_correct", [0, 4])
def test_a_model_that_solves_all_or_nothing_is_rated_with_the_prior(n_correct):
    problems = [SolvedProblem(difficulty, 4, n_correct) for difficulty in (1200, 1600)] * 10
    found = rate_by_difficulty(problems)
    assert found.with_prior
    assert (found.rating, found.error) == likeliest_rating(problems, PRIOR)
    assert (found.high - found.rating, found.rating - found.low) == pytest.approx((1.96 * found.error,) * 2, rel=1e-3)
    assert (found.rating < 1500) == (n_correct == 0)
    assert not rate_by_difficulty(FIVE).with_prior


def test_a_rating_needs_problems():
    with pytest.raises(ValueError, match="at least one problem"):
        rate_by_difficulty([])


def test_problems_without_a_rating_or_a_verdict_are_left_out():
    outcomes = [
        outcome("a", "10x", difficulty=1500),
        outcome("b", "1", difficulty="hard"),
        outcome("c", "x", difficulty=800),
    ]
    assert solved_problems(outcomes) == [SolvedProblem(1500, 2, 1)]


@pytest.mark.parametrize(
    ("spread", "wider"),
    [pytest.param(0, (0.9, 1.1), id="as rated"), pytest.param(400, (1.5, 2.2), id="easier or harder than rated")],
)
def test_the_interval_holds_as_often_as_stated(spread, wider):
    """Solvers of rating 1700 try 40 problems 4 times. If the difficulty of problems differs from their ratings, samples
    of a problem resemble each other, and the interval has to be wider than the error says."""
    rng = random.Random(0)
    held, ratios = 0, []
    for _ in range(20):
        problems = []
        for rated in [*range(800, 2800, 200)] * 4:
            chance = 1 / (1 + 10 ** ((rated + rng.gauss(0, spread) - 1700) / 400))
            problems.append(SolvedProblem(rated, 4, sum(rng.random() < chance for _ in range(4))))
        found = rate_by_difficulty(problems)
        held += found.low <= 1700 <= found.high
        ratios.append((found.high - found.low) / (2 * 1.96 * found.error))
    assert held >= 17
    assert wider[0] < fmean(ratios) < wider[1]
