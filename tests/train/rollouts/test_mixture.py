"""A position alone decides from which dataset its prompt comes, and which of its prompts it is."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.rollouts.prompt_dataset import Mixture

WEIGHTS = st.lists(st.floats(0.01, 100), min_size=1, max_size=5)


@given(WEIGHTS, st.integers(0, 9), st.integers(0, 2000))
def test_the_prompts_of_each_dataset_come_in_their_order_without_gap_or_repetition(weights, seed, n):
    mixture = Mixture(weights, seed=seed)
    found = [mixture.locate(position) for position in range(n)]
    for dataset in range(len(weights)):
        places = [place for number, place in found if number == dataset]
        assert places == list(range(len(places)))


@given(WEIGHTS, st.integers(0, 9), st.lists(st.integers(0, 3000), max_size=20))
def test_a_position_can_be_asked_for_in_any_order(weights, seed, positions):
    mixture = Mixture(weights, seed=seed)
    assert [mixture.locate(position) for position in positions] == [
        Mixture(weights, seed=seed).locate(position) for position in positions
    ]


def test_each_dataset_has_its_share_in_each_part_of_a_run():
    mixture = Mixture([3, 1, 0.004], seed=0)
    counts = [Counter(mixture.locate(at)[0] for at in range(first, first + 1280)) for first in range(0, 128_000, 1280)]
    assert all(count[0] == pytest.approx(960, abs=20) for count in counts)
    assert sum(count[2] for count in counts) == pytest.approx(128_000 * 0.004 / 4.004, rel=0.15)


def test_the_seed_decides_the_order():
    first, second = ([Mixture([1, 1], seed=seed).locate(at)[0] for at in range(64)] for seed in (0, 1))
    assert first != second


def test_one_dataset_alone_has_the_positions_as_they_are():
    assert [Mixture([2.5], seed=3).locate(position) for position in (0, 7, 10**9)] == [(0, 0), (0, 7), (0, 10**9)]
