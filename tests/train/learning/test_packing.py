"""Packing neither loses nor repeats an answer, and no row is too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.learning.sequences import (
    MAX_KEYS_PER_TOKEN,
    PackedPrompt,
    pack_first_fit_decreasing,
    pack_prompts,
    split_across_ranks,
)

LENGTHS = st.lists(st.integers(1, 100), max_size=60)
GROUPS = st.lists(st.tuples(st.integers(1, 40), st.lists(st.integers(0, 60), min_size=1, max_size=12)), max_size=12)


def numbered(groups):
    """Give each answer a number, as the sequences of a minibatch have."""
    numbers = iter(range(1000))
    return [PackedPrompt(prompt, tuple(((next(numbers),), tokens) for tokens in answers)) for prompt, answers in groups]


@given(GROUPS)
def test_each_answer_is_in_one_row_with_its_prompt_and_no_row_is_too_long(groups):
    packed = pack_prompts(numbered(groups), row_tokens=100)
    found = sorted((*answer, part.prompt_tokens) for row in packed for part in row for answer in part.completions)
    assert found == [(*answer, each.prompt_tokens) for each in numbered(groups) for answer in each.completions]
    assert all(sum(part.tokens for part in row) <= 100 for row in packed)
    assert all(sum(part.n_attention_keys for part in row) <= MAX_KEYS_PER_TOKEN * 100 for row in packed)


@given(st.lists(st.tuples(st.integers(1, 20), st.lists(st.integers(1, 20), min_size=1, max_size=3)), max_size=12))
def test_answers_that_fit_into_a_row_are_not_separated(groups):
    packed = pack_prompts(numbered(groups), row_tokens=100)
    assert sum(len(row) for row in packed) == len(groups)


@given(LENGTHS)
def test_no_two_bins_could_be_joined(lengths):
    filled = sorted(
        sum(lengths[place] for place in bin)
        for bin in pack_first_fit_decreasing([(each, 0) for each in lengths], (100, 0))
    )
    assert len(filled) < 2 or filled[0] + filled[1] > 100


@pytest.mark.parametrize("size", [(101, 1), (1, 201)])
def test_an_item_larger_than_a_bin_is_refused(size):
    with pytest.raises(ValueError, match=r"does not fit into a bin of \(100, 200\)"):
        pack_first_fit_decreasing([(5, 5), size], (100, 200))


@given(GROUPS, st.integers(1, 5))
def test_every_rank_has_equally_many_rows_and_together_they_have_all(groups, ranks):
    packed = pack_prompts(numbered(groups), row_tokens=100)
    divided = split_across_ranks(packed, ranks=ranks)
    assert len(divided) == ranks
    assert len({len(own) for own in divided}) == 1
    of_all = [row for own in divided for row in own if row]
    assert sorted(of_all, key=lambda row: row[0].completions) == sorted(packed, key=lambda row: row[0].completions)


def test_work_is_balanced_between_ranks():
    packed = [[PackedPrompt(1, (((number,), tokens),))] for number, tokens in enumerate((90, 80, 20, 10))]
    divided = split_across_ranks(packed, ranks=2)
    assert sorted(sorted(row[0].completions[0][0][0] for row in own) for own in divided) == [[0, 3], [1, 2]]


def test_the_work_of_a_shared_prompt_counts_once_and_attention_to_it_for_each_answer():
    alone, shared = PackedPrompt(6000, (((0,), 6000),)), PackedPrompt(6000, (((0,), 6000), ((1,), 6000)))
    assert alone.cost == 12_000 + 12_000
    assert shared.cost == 18_000 + 12_000 + 9_000
