"""Each token of a completion is predicted once, from the tokens before it."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import random_models  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from train.learning.sequences import TrainingSequence, in_rows  # noqa: E402


@given(st.integers(0, 9), st.integers(1, 60), st.integers(1, 3), st.integers(0, 5))
def test_every_completion_token_is_predicted_once_from_all_tokens_before_it(n, row_tokens, ranks, seed):
    sequences = random_models.sequences(n, seed=seed)
    expected = [
        ([*each.prompt_ids, *each.token_ids[:place]], token)
        for each in sequences
        for place, token in enumerate(each.token_ids)
    ]
    found = {}
    for rank in range(ranks):
        for row in in_rows(sequences, row_tokens=row_tokens, ranks=ranks, rank=rank):
            assert sum(row.lengths) == len(row.token_ids_L) == len(row.position_ids_L)
            for at, target, place in zip(
                row.positions_R.tolist(), row.targets_R.tolist(), row.places_R.tolist(), strict=True
            ):
                assert place not in found
                start = at - int(row.position_ids_L[at])
                assert row.position_ids_L[start : at + 1].tolist() == list(range(at + 1 - start))
                found[place] = row.token_ids_L[start : at + 1].tolist(), target
    assert [found[place] for place in range(len(found))] == expected


def test_rows_grow_to_hold_a_longer_sequence():
    rows = list(
        in_rows(
            random_models.sequences(3) + [TrainingSequence((1,), (2,) * 50, (0.0,) * 50, (0.0,) * 50, False, 0.0)],
            row_tokens=9,
        )
    )
    assert max(len(row.token_ids_L) for row in rows) == 50


def test_every_rank_has_a_row_even_if_there_is_only_one_sequence():
    rows = [list(in_rows(random_models.sequences(1), row_tokens=99, ranks=3, rank=rank)) for rank in range(3)]
    assert [len(each) for each in rows] == [1, 1, 1]
    assert sum(len(row.places_R) > 0 for each in rows for row in each) == 1
    assert all(len(row.token_ids_L) > 0 for each in rows for row in each)


def test_a_sequence_with_a_missing_number_is_refused():
    with pytest.raises(ValueError, match="2 tokens, 1 log-probabilities and 2 advantages"):
        TrainingSequence((1,), (2, 3), (0.0,), (0.0, 0.0), False, 0.0)
    with pytest.raises(ValueError, match="prompt"):
        TrainingSequence((), (2,), (0.0,), (0.0,), False, 0.0)
