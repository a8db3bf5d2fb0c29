"""Packing neither loses nor repeats a sequence, and no row is too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.learning.packing import rows, shares

LENGTHS = st.lists(st.integers(1, 100), max_size=60)


@given(LENGTHS)
def test_each_sequence_is_in_one_row_and_no_row_is_too_long(lengths):
    packed = rows(lengths, most_tokens=100)
    assert sorted(place for row in packed for place in row) == list(range(len(lengths)))
    assert all(sum(lengths[place] for place in row) <= 100 for row in packed)


@given(LENGTHS)
def test_no_two_rows_could_be_joined(lengths):
    filled = sorted(sum(lengths[place] for place in row) for row in rows(lengths, most_tokens=100))
    assert len(filled) < 2 or filled[0] + filled[1] > 100


def test_a_sequence_longer_than_a_row_is_refused():
    with pytest.raises(ValueError, match="101 tokens does not fit into a row of 100"):
        rows([5, 101], most_tokens=100)


@given(LENGTHS, st.integers(1, 5))
def test_every_rank_has_equally_many_rows_and_together_they_have_all(lengths, ranks):
    packed = rows(lengths, most_tokens=100)
    parts = shares(packed, lengths, ranks=ranks)
    assert len(parts) == ranks
    assert len({len(part) for part in parts}) == 1
    assert sorted(row for part in parts for row in part if row) == sorted(packed)


def test_work_is_balanced_between_ranks():
    parts = shares([[0], [1], [2], [3]], [90, 80, 20, 10], ranks=2)
    assert sorted(sorted(row[0] for row in part) for part in parts) == [[0, 3], [1, 2]]
