"""Tokens are added up over samples, and what is unknown is never taken for nothing."""

import pytest

from train.evaluation.results.result import Prices, TokenCounts, compute_cost, sum_tokens
from train.evaluation.results.tables import format_cost


def test_each_sample_pays_for_its_prompt_and_its_answer():
    tokens = sum_tokens([(100, 4000), (100, 6000), (50, 1000)])
    assert tokens == TokenCounts(250, 11000)
    assert compute_cost(tokens, Prices(prompt=2.0, completion=8.0)) == pytest.approx(0.0885)


def test_a_sample_of_unknown_length_makes_the_sum_unknown():
    assert sum_tokens([(100, 4000), (0, 6000)]) == TokenCounts(None, 10000)
    assert sum_tokens([(100, 0), (100, 6000)]) == TokenCounts(200, None)
    assert sum_tokens([]) == TokenCounts(0, 0)


def test_a_cost_is_unknown_only_if_unknown_tokens_cost_something():
    assert compute_cost(TokenCounts(None, 10), Prices(2.0, 8.0)) is None
    assert compute_cost(TokenCounts(None, 1_000_000), Prices(0.0, 8.0)) == 8.0


def test_a_bill_says_what_is_unknown():
    assert format_cost(TokenCounts(250_000, 1_000_000), Prices(2.0, 8.0)) == (
        "tokens of prompts: 250,000, of completions: 1,000,000; cost: 8.50"
    )
    assert (
        format_cost(TokenCounts(None, 10), Prices(2.0, 8.0))
        == "tokens of prompts: unknown, of completions: 10; cost: unknown"
    )


@pytest.mark.parametrize("prices", [(-1.0, 0.0), (0.0, -1.0), (float("nan"), 0.0)])
def test_a_price_below_zero_is_refused(prices):
    with pytest.raises(ValueError, match="prices must be at least 0"):
        Prices(*prices)
