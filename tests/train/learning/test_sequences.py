"""Each token of a completion is predicted once, from the tokens before it."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import random_models  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from train.learning.sequences import TrainingSequence, pack_into_rows  # noqa: E402


def read_before(row):
    """Return, for each place in the row, the tokens to which it attends, its own included, by what lengths say."""
    seen = []
    ids, positions = row.token_ids_L.tolist(), row.position_ids_L.tolist()
    for prompt, *answers in row.lengths:
        start = len(seen)
        shared = ids[start : start + prompt]
        assert positions[start : start + prompt] == list(range(prompt))
        seen += [shared[: n + 1] for n in range(prompt)]
        for answer in answers:
            start = len(seen)
            assert positions[start : start + answer] == list(range(prompt, prompt + answer))
            seen += [shared + ids[start : start + n + 1] for n in range(answer)]
    assert len(seen) == len(ids) == len(positions)
    return seen


@given(st.integers(0, 9), st.integers(1, 60), st.integers(1, 3), st.integers(1, 4), st.integers(0, 5))
def test_every_completion_token_is_predicted_once_from_all_tokens_before_it(n, row_tokens, ranks, answers, seed):
    sequences = random_models.sequences(n, seed=seed, answers=answers)
    expected = [
        ([*each.prompt_ids, *each.token_ids[:place]], token)
        for each in sequences
        for place, token in enumerate(each.token_ids)
    ]
    found = {}
    for rank in range(ranks):
        for row in pack_into_rows(sequences, row_tokens=row_tokens, ranks=ranks, rank=rank):
            seen = read_before(row)
            predicted = list(zip(row.source_index_U.tolist(), row.targets_U.tolist(), strict=True))
            for place, number in zip(row.token_index_R.tolist(), row.unique_index_R.tolist(), strict=True):
                assert place not in found
                at, target = predicted[number]
                found[place] = seen[at], target
    assert [found[place] for place in range(len(found))] == expected


def answer(prompt_ids, n_tokens, token=2):
    return TrainingSequence(prompt_ids, (token,) * n_tokens, (0.0,) * n_tokens, (0.0,) * n_tokens, False, 0.0)


def test_a_prompt_is_in_a_row_once_for_all_of_its_answers():
    first, second = (1,) * 30, (3,) * 20
    given = [answer(first, 5), answer(second, 1), answer(first, 10), answer(first, 1), answer(second, 8)]
    (row,) = pack_into_rows(given, row_tokens=100)
    assert row.lengths == ((30, 4, 9), (27,))
    assert len(row.token_index_R) == 25


def test_answers_that_do_not_fit_into_one_row_take_their_prompt_along():
    rows = list(pack_into_rows([answer((1,) * 30, 31, token) for token in range(5)], row_tokens=100))
    assert sorted(row.lengths for row in rows) == [((30, 30, 30),), ((30, 30, 30),), ((60,),)]


def test_equal_answers_to_a_prompt_are_in_a_row_once_and_equal_answers_to_others_are_not():
    given = [answer((1, 1), 4), answer((3,), 4), answer((1, 1), 4), answer((1, 1), 3)]
    (row,) = pack_into_rows(given, row_tokens=100)
    assert row.lengths == ((2, 3, 2), (4,))
    assert len(row.targets_U) == 4 + 3 + 4
    assert sorted(row.token_index_R.tolist()) == list(range(15))


def test_a_row_repeats_only_so_many_keys_however_short_the_answers_are():
    rows = list(pack_into_rows([answer((1,) * 40, 2, token) for token in range(12)], row_tokens=100))
    keys = [sum(40 + answer for part in row.lengths for answer in part[1:]) for row in rows]
    assert len(rows) == 3
    assert max(keys) <= 2 * 100


def test_rows_grow_to_hold_a_longer_sequence():
    rows = list(
        pack_into_rows(
            random_models.sequences(3) + [answer((1,), 50)],
            row_tokens=9,
        )
    )
    assert max(len(row.token_ids_L) for row in rows) == 50


def test_every_rank_has_a_row_even_if_there_is_only_one_sequence():
    rows = [list(pack_into_rows(random_models.sequences(1), row_tokens=99, ranks=3, rank=rank)) for rank in range(3)]
    assert [len(each) for each in rows] == [1, 1, 1]
    assert sum(len(row.token_index_R) > 0 for each in rows for row in each) == 1
    assert all(len(row.token_ids_L) > 0 for each in rows for row in each)


def test_a_sequence_with_a_missing_number_is_refused():
    with pytest.raises(ValueError, match="2 tokens, 1 log-probabilities and 2 advantages"):
        TrainingSequence((1,), (2, 3), (0.0,), (0.0, 0.0), False, 0.0)
    with pytest.raises(ValueError, match="prompt"):
        TrainingSequence((), (2,), (0.0,), (0.0,), False, 0.0)
