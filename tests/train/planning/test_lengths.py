"""Lengths of answers have the mean and the limit that they are asked to have."""

import random
from statistics import fmean

import pytest

from train.planning.simulate import LogNormalLengths


@pytest.mark.parametrize(("mean", "limit"), [(9000, 32768), (17500, 32768), (40, 96)])
def test_lengths_have_the_mean_and_the_limit_that_were_asked_for(mean: int, limit: int) -> None:
    lengths, rng = LogNormalLengths.with_mean(mean, limit=limit), random.Random(0)
    drawn = [lengths.sample(rng) for _ in range(20_000)]
    assert lengths.mean == pytest.approx(mean, rel=0.001)
    assert fmean(drawn) == pytest.approx(mean, rel=0.02)
    assert max(drawn) == limit


def test_a_mean_beyond_the_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="completions of at most 100 tokens cannot have 100 on average"):
        LogNormalLengths.with_mean(100, limit=100)
