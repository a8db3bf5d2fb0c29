"""The interval of a bootstrap holds as often as stated."""

import random
from statistics import fmean, median

import pytest
from scipy.stats import t as student_t

from train.evaluation.statistics.intervals import compute_bootstrap_interval, compute_standard_error


@pytest.mark.parametrize("n", [20, 57])
def test_the_interval_of_a_mean_holds_as_often_as_stated(n):
    """Each of 400 sets has n values of a skewed distribution, whose mean is 1."""
    rng = random.Random(0)
    held = 0
    for _ in range(400):
        values = [rng.gammavariate(4, 0.25) for _ in range(n)]
        low, high = compute_bootstrap_interval(values, lambda drawn: sum(drawn) / n, n_resamples=400)
        held += low <= 1 <= high
    assert 0.93 <= held / 400 <= 0.97


def test_it_is_the_usual_interval_where_there_is_one():
    rng = random.Random(0)
    values = [rng.gauss(1500, 300) for _ in range(60)]
    usual = student_t.interval(0.95, 59, fmean(values), compute_standard_error(values))
    assert compute_bootstrap_interval(values, fmean, n_resamples=4000) == pytest.approx(usual, abs=6)


def test_any_estimate_has_an_interval_which_is_the_same_each_time():
    values = [1, 2, 2, 3, 3, 3, 3, 4, 4, 9]
    low, high = compute_bootstrap_interval(values, median, n_resamples=400)
    assert (low, high) == compute_bootstrap_interval(values, median, n_resamples=400)
    assert low < 3 <= high
    assert compute_bootstrap_interval([7, 7], median, n_resamples=40) == (7, 7)
