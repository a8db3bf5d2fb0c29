"""Ranks that share a row have all of its tokens and places between them."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import random_models  # noqa: E402

from train.errors import LearnerError  # noqa: E402
from train.learning.learner import check_heads  # noqa: E402
from train.learning.sequences import pack_into_rows, shard_row  # noqa: E402


@pytest.mark.parametrize("ranks", [1, 2, 3, 50])
def test_parts_of_a_row_have_each_token_and_each_place_once(ranks):
    given = random_models.sequences(9)
    for row in pack_into_rows([*given, given[0]], row_tokens=60):
        parts = [shard_row(row, ranks=ranks, rank=rank) for rank in range(ranks)]
        lengths = {len(part.token_ids_L) for part in parts}
        assert lengths == {-(-len(row.token_ids_L) // ranks)}
        assert sum(length for each in parts[0].lengths for length in each) == ranks * lengths.pop()
        tokens = torch.cat([part.token_ids_L for part in parts])
        assert torch.equal(tokens[: len(row.token_ids_L)], row.token_ids_L)
        assert sorted(torch.cat([part.token_index_R for part in parts]).tolist()) == sorted(row.token_index_R.tolist())
        before = dict(zip(row.token_index_R.tolist(), row.targets_U[row.unique_index_R].tolist(), strict=True))
        for part in parts:
            after = zip(part.token_index_R.tolist(), part.targets_U[part.unique_index_R].tolist(), strict=True)
            assert all(before[place] == target for place, target in after)
            assert all(0 <= position < len(part.token_ids_L) for position in part.source_index_U.tolist())


@pytest.mark.parametrize(("query_heads", "key_heads", "ranks"), [(16, 8, 4), (16, 2, 8), (16, 1, 16), (6, 6, 3)])
def test_heads_that_can_be_divided_are_not_refused(query_heads, key_heads, ranks):
    check_heads(query_heads, key_heads, ranks)


@pytest.mark.parametrize(("query_heads", "key_heads", "ranks"), [(16, 8, 3), (12, 4, 6), (14, 2, 4)])
def test_heads_that_cannot_be_divided_are_refused_with_words(query_heads, key_heads, ranks):
    with pytest.raises(
        LearnerError, match=f"ranks.context = {ranks} cannot divide the model's {query_heads} query heads"
    ):
        check_heads(query_heads, key_heads, ranks)
