"""The intervals of a solve rate and of a difference hold as often as stated, and have a width wherever they should."""

import random
from math import isnan, sqrt

import pytest
from scipy.stats import binom, binomtest, multinomial

from train.evaluation.statistics.intervals import (
    compute_difference_interval,
    compute_effective_sample_size,
    compute_solve_rate_interval,
    compute_standard_error,
)

Z = 1.959963984540054


def beta_rates(mean, unevenness, n_problems, rng):
    """Return solve rates with this mean; the unevenness is the correlation of two samples of a problem."""
    weight = 1 / unevenness - 1
    return [rng.betavariate(mean * weight, (1 - mean) * weight) for _ in range(n_problems)]


def n_solved(rates, k, rng):
    return [sum(rng.random() < rate for _ in range(k)) for rate in rates]


@pytest.mark.parametrize("n_problems", [10, 20, 50])
def test_with_one_sample_of_each_problem_coverage_is_right_for_every_rate(n_problems):
    ends = [compute_solve_rate_interval([(1, 1)] * n + [(1, 0)] * (n_problems - n)) for n in range(n_problems + 1)]
    coverages = []
    for rate in (place / 500 for place in range(10, 491)):
        weights = binom.pmf(range(n_problems + 1), n_problems, rate)
        coverages.append(sum(p for p, (low, high) in zip(weights, ends, strict=True) if low <= rate <= high))
    assert min(coverages) > 0.934
    assert 0.95 < sum(coverages) / len(coverages) < 0.973


@pytest.mark.parametrize(
    ("n_problems", "mean", "unevenness"),
    [(10, 0.1, 0.6), (20, 0.95, 0.6), (30, 0.95, 0.3), (50, 0.02, 0.6), (20, 0.5, 0.2)],
)
def test_with_several_samples_coverage_is_right_for_uneven_problems(n_problems, mean, unevenness):
    rng, held = random.Random(0), 0
    for _ in range(1000):
        rates = beta_rates(mean, unevenness, n_problems, rng)
        low, high = compute_solve_rate_interval([(8, n) for n in n_solved(rates, 8, rng)])
        held += low <= mean <= high
    assert held / 1000 > 0.93
    assert held / 1000 < 0.97 or mean != 0.5  # rates near 0 and 1 allow for few different intervals


def test_samples_of_one_problem_do_not_count_as_problems():
    alike = [(8, 8), (8, 0)] * 20  # each problem is solved always or never: 40 trials, not 320
    assert compute_effective_sample_size(alike) == pytest.approx(39)
    assert compute_solve_rate_interval(alike) == pytest.approx(compute_solve_rate_interval([(1, 1), (1, 0)] * 20))
    unlike = [(8, 4)] * 40
    assert compute_effective_sample_size(unlike) == 320


def test_with_one_sample_of_each_problem_it_is_agresti_and_coulls_interval():
    low, high = compute_solve_rate_interval([(1, 1)] * 30 + [(1, 0)] * 70)
    n = 99 + Z**2
    centre = (99 * 0.3 + Z**2 / 2) / n
    half = Z * sqrt(centre * (1 - centre) / n)
    assert (low, high) == pytest.approx((centre - half, centre + half))
    wilson = binomtest(30, 100).proportion_ci(method="wilson")
    assert low < wilson.low
    assert wilson.high < high


def test_the_interval_stays_wide_if_all_of_a_few_problems_are_solved():
    low, high = compute_solve_rate_interval([(4, 4)] * 10)
    assert high == 1
    assert 0.6 < low < 0.72
    low, high = compute_solve_rate_interval([(4, 0)] * 10)
    assert low == 0
    assert 0.28 < high < 0.4
    assert compute_solve_rate_interval([(4, 1)])[1] - compute_solve_rate_interval([(4, 1)])[0] > 0.7


def test_without_samples_the_interval_is_unknown():
    assert all(map(isnan, compute_solve_rate_interval([])))


@pytest.mark.parametrize("n_problems", [10, 30])
@pytest.mark.parametrize(
    ("only_first", "only_second"), [(0, 0.02), (0.01, 0.02), (0.02, 0.05), (0, 0.25), (0.1, 0.1), (0.3, 0.45)]
)
def test_the_difference_of_single_samples_has_the_right_coverage_near_one(n_problems, only_first, only_second):
    """With so few problems that only one of two models solves, most evaluations see one of them or none."""
    held = 0.0
    for b in range(n_problems + 1):
        for c in range(n_problems + 1 - b):
            same = n_problems - b - c
            low, high = compute_difference_interval([-1.0] * b + [1.0] * c + [0.0] * same, 1)
            if low <= only_second - only_first <= high:
                held += multinomial.pmf(
                    [b, c, same], n_problems, [only_first, only_second, 1 - only_first - only_second]
                )
    assert held > 0.938


@pytest.mark.parametrize(
    ("n_problems", "mean", "unevenness", "k"),
    [
        (10, 0.98, 0.3, (8, 8)),
        (30, 0.95, 0.6, (8, 8)),
        (20, 0.5, 0.1, (8, 8)),
        (30, 0.5, 0.6, (4, 2)),
        (20, 0.1, 0.01, (8, 1)),
    ],
)
def test_the_difference_of_several_samples_has_the_right_coverage(n_problems, mean, unevenness, k):
    rng, held = random.Random(0), 0
    for _ in range(1000):
        rates = beta_rates(mean, unevenness, n_problems, rng)
        better = [rate + (1 - rate) / 4 for rate in rates]
        counts = zip(n_solved(rates, k[0], rng), n_solved(better, k[1], rng), strict=True)
        low, high = compute_difference_interval([after / k[1] - before / k[0] for before, after in counts], 1 / min(k))
        held += low <= (1 - mean) / 4 <= high
    assert held / 1000 > 0.93


def test_with_one_sample_of_each_problem_it_is_bonett_and_prices_interval():
    low, high = compute_difference_interval([-1.0] * 3 + [1.0] * 9 + [0.0] * 28, 1)
    extended = [-1.0] * 4 + [1.0] * 10 + [0.0] * 28
    assert (low, high) == pytest.approx(
        (6 / 42 - Z * compute_standard_error(extended), 6 / 42 + Z * compute_standard_error(extended))
    )


def test_the_interval_of_a_difference_has_a_width_even_if_no_problem_differs():
    for n_problems, expected in (10, 0.24), (100, 0.028):
        low, high = compute_difference_interval([0.0] * n_problems, 1)
        assert low == -high
        assert high == pytest.approx(expected, rel=0.05)
    assert compute_difference_interval([1.0] * 10, 1)[1] == 1


def test_intervals_contain_their_estimates():
    rng = random.Random(0)
    for _ in range(300):
        n_problems, k = rng.randint(1, 40), rng.randint(1, 8)
        rates = beta_rates(rng.uniform(0.01, 0.99), rng.uniform(0.01, 0.99), n_problems, rng)
        first, second = (n_solved(rates, k, rng) for _ in range(2))
        low, high = compute_solve_rate_interval([(k, n) for n in first])
        assert 0 <= low <= sum(first) / k / n_problems + 1e-12
        assert sum(first) / k / n_problems - 1e-12 <= high <= 1
        low, high = compute_difference_interval([(b - a) / k for a, b in zip(first, second, strict=True)], 1 / k)
        mean = (sum(second) - sum(first)) / k / n_problems
        assert -1 <= low <= mean + 1e-12
        assert mean - 1e-12 <= high <= 1
