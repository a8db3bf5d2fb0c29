from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.difficulty.pass_at_k import pass_at_k


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_it_is_the_share_of_all_choices_of_k_samples_that_contain_a_correct_one(numbers):
    n, n_correct, k = numbers
    choices = list(combinations([True] * n_correct + [False] * (n - n_correct), k))
    assert pass_at_k(n, n_correct, k) == sum(map(any, choices)) / len(choices)


def test_large_numbers_of_samples_do_not_overflow():
    assert pass_at_k(100_000, 1, 50_000) == 0.5


def test_fewer_samples_than_k_give_no_estimate_rather_than_a_zero():
    assert pass_at_k(7, 0, 8) is None
    assert pass_at_k(0, 0, 1) is None


@pytest.mark.parametrize(("n", "n_correct", "k"), [(8, 9, 1), (8, -1, 1), (8, 1, 0)])
def test_impossible_numbers_are_refused(n, n_correct, k):
    with pytest.raises(ValueError, match="pass@k requires"):
        pass_at_k(n, n_correct, k)
