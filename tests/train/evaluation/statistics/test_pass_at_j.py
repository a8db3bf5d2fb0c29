"""pass@j is the share of choices of j samples that contain a right one."""

from itertools import combinations
from math import isnan
from statistics import fmean

import pytest
from made_outcomes import outcomes

from train.evaluation.statistics.outcomes import estimate_pass_at, select_powers_of_two, summarize


def test_every_j_is_what_counting_all_choices_gives():
    counts = [(n, n_correct) for n in (5, 6, 7) for n_correct in range(n + 1)]
    estimates = estimate_pass_at(counts)
    assert list(estimates) == [1, 2, 3, 4, 5]
    for j, estimate in estimates.items():
        shares = [
            fmean(any(choice) for choice in combinations([True] * n_correct + [False] * (n - n_correct), j))
            for n, n_correct in counts
        ]
        assert estimate == pytest.approx(fmean(shares), abs=1e-15)


def test_a_table_shows_powers_of_two_and_the_last_one():
    assert list(select_powers_of_two(estimate_pass_at([(12, 3)]))) == [1, 2, 4, 8, 12]
    assert list(select_powers_of_two(estimate_pass_at([(8, 3)]))) == [1, 2, 4, 8]
    assert select_powers_of_two(estimate_pass_at([])) == {}


def test_always_solved_problems_have_only_right_samples():
    assert summarize(outcomes("1111", "111", "1110", "0000")).always_solved_share == 0.5
    assert isnan(summarize([]).always_solved_share)
