"""The confidence interval of a mean over problems is as wide as it should be."""

import random
from math import isnan, sqrt

import pytest

from train.evaluation.statistics.intervals import effective_sample_size, solve_rate_interval


def test_the_interval_contains_the_true_mean_as_often_as_stated():
    """Each of 1000 sets has 40 problems with 4 samples. About half of the problems are nearly always solved."""
    rng = random.Random(0)
    held = 0
    for _ in range(1000):
        rates = [rng.choice((0.98, rng.random())) for _ in range(40)]
        counts = [(4, sum(rng.random() < rate for _ in range(4))) for rate in rates]
        low, high = solve_rate_interval(counts)
        held += low <= (0.98 + 0.5) / 2 <= high
    assert 0.93 <= held / 1000 <= 0.97


def test_samples_of_one_problem_do_not_count_as_problems():
    alike = [(8, 8), (8, 0)] * 20  # each problem is solved always or never: 40 trials, not 320
    assert effective_sample_size(alike) == pytest.approx(39)
    assert solve_rate_interval(alike) == pytest.approx(solve_rate_interval([(1, 1), (1, 0)] * 20))
    unlike = [(8, 4)] * 40
    assert effective_sample_size(unlike) == 320


def test_with_one_sample_per_problem_it_is_wilsons_interval():
    low, high = solve_rate_interval([(1, 1)] * 30 + [(1, 0)] * 70)
    n, share, z = 99, 0.3, 1.959963984540054
    half = z * sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert (low + high) / 2 == pytest.approx((share + z**2 / (2 * n)) / (1 + z**2 / n))
    assert (high - low) / 2 == pytest.approx(half)


def test_the_interval_stays_wide_if_all_of_a_few_problems_are_solved():
    low, high = solve_rate_interval([(4, 4)] * 10)
    assert high == 1
    assert 0.65 < low < 0.75  # 0.72 by Wilson
    low, high = solve_rate_interval([(4, 0)] * 10)
    assert low == 0
    assert 0.25 < high < 0.35
    assert solve_rate_interval([(4, 1)])[1] - solve_rate_interval([(4, 1)])[0] > 0.7


def test_without_samples_the_interval_is_unknown():
    assert all(map(isnan, solve_rate_interval([])))
