"""Counted noise is the same everywhere, and what it draws follows the model's distribution."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from honest_commitments import commit
from numpy.typing import NDArray

from train.sampling.seeded_sampling import (
    CommitmentRecorder,
    _derive_keys,
    _hash,
    generate_gumbel_tensor,
    get_bfloat16_bits,
    sample_tokens,
)

SEEDS, POSITIONS = [0, 5, 2**31 - 1, 2**40 + 1, 2**64 - 1], [0, 3, 7, 100_000, 1]


def gumbel(seeds: Sequence[int], positions: Sequence[int], vocabulary: int) -> NDArray[np.float32]:
    """Return what `generate_gumbel_tensor` does, computed by numpy."""
    hashed = _hash(np.array(_derive_keys(seeds, positions), dtype=np.int64), np.arange(vocabulary, dtype=np.int64))
    uniform = np.minimum((2 * hashed + 1).astype(np.float32) * np.float32(2**-33), np.float32(1 - 2**-24))
    noise: NDArray[np.float32] = -np.log(-np.log1p(-uniform))
    return noise


def test_the_integers_are_those_that_were_published() -> None:
    numbers = _hash(np.array(_derive_keys([0, 1234567890123], [0, 77])), np.arange(4))
    assert numbers.tolist() == [
        [1792599209, 1186443495, 1843363501, 2847061042],
        [447138101, 913446661, 3517886392, 1287948065],
    ]


def test_numpy_and_torch_count_the_same() -> None:
    keys = np.array(_derive_keys(SEEDS, POSITIONS))
    assert (_hash(torch.tensor(keys), torch.arange(5000)).numpy() == _hash(keys, np.arange(5000))).all()
    np.testing.assert_allclose(
        generate_gumbel_tensor(SEEDS, POSITIONS, 5000).numpy(), gumbel(SEEDS, POSITIONS, 5000), rtol=1e-6, atol=1e-6
    )


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    together = generate_gumbel_tensor(SEEDS, POSITIONS, 100)
    for seed, position, row in zip(SEEDS, POSITIONS, together, strict=True):
        assert torch.equal(generate_gumbel_tensor([seed], [position], 100)[0], row)


def test_the_noise_has_the_distribution_of_gumbel_and_is_never_infinite() -> None:
    noise = gumbel(range(40), [3] * 40, 50_000).astype(np.float64)
    assert np.isfinite(noise).all()
    assert noise.mean() == pytest.approx(np.euler_gamma, abs=0.005)
    assert noise.var() == pytest.approx(np.pi**2 / 6, abs=0.01)
    for threshold in (-1.0, 0.0, 2.0, 6.0):
        assert (noise < threshold).mean() == pytest.approx(np.exp(-np.exp(-threshold)), abs=0.002)


@pytest.mark.parametrize("temperature", [0.6, 1.0])
@pytest.mark.parametrize("varied", ["seeds", "positions"])
def test_draws_follow_the_softmax(temperature: float, varied: str) -> None:
    logits = torch.randn(60, generator=torch.Generator().manual_seed(0)) * 2
    expected = (logits / temperature).softmax(0).double() * 100_000
    counts = torch.zeros(60)
    for first in range(0, 100_000, 5000):
        counted, same = list(range(first, first + 5000)), [11] * 5000
        seeds, positions = (counted, same) if varied == "seeds" else (same, counted)
        tokens, logprobs, _ = sample_tokens(logits.expand(5000, 60), temperature, seeds, positions)
        counts += tokens.bincount(minlength=60)
        assert torch.allclose(logprobs, (logits / temperature).log_softmax(0)[tokens], atol=1e-5)
    common = expected >= 10
    chi_square = float(((counts - expected)[common] ** 2 / expected[common]).sum())
    freedom = int(common.sum())
    assert chi_square < freedom + 5 * (2 * freedom) ** 0.5


def test_draws_at_neighbouring_positions_and_seeds_have_nothing_to_do_with_each_other() -> None:
    noise = gumbel([*range(20), *[0] * 20], [*[0] * 20, *range(1, 21)], 20_000)
    correlations = np.asarray(np.corrcoef(noise)) - np.eye(40)
    assert np.abs(correlations).max() < 6 / 20_000**0.5


def test_at_temperature_0_there_is_no_noise() -> None:
    logits = torch.randn(3, 50)
    tokens, logprobs, _ = sample_tokens(logits, 0.0, [1, 2, 3], [0, 0, 0])
    assert torch.equal(tokens, logits.argmax(1))
    assert torch.allclose(logprobs, logits.log_softmax(1).max(1).values)


@pytest.mark.parametrize(("n_tokens", "width"), [(1, 16), (32, 16), (33, 16), (70, 16), (65, 3000), (33, 2)])
def test_an_engine_that_notes_token_by_token_commits_to_the_same(n_tokens: int, width: int) -> None:
    hidden = torch.randn(n_tokens, width, generator=torch.Generator().manual_seed(1)).round(decimals=1)  # with ties
    record = CommitmentRecorder()
    for position, row in enumerate(hidden):
        record.record(position, torch.zeros(width), torch.tensor(9.0))  # of a prompt that was computed in pieces
        record.record(position, row, torch.tensor(-float(position)))
    for position in range(max(0, n_tokens - 2), n_tokens):  # drawn again, because it was in flight
        record.record(position, hidden[position], torch.tensor(-float(position)))
    record.record(n_tokens, torch.ones(width), torch.tensor(0.0))  # drawn, but not part of the answer any more
    sent, logprobs = record.finish(n_tokens)
    assert sent == commit(get_bfloat16_bits(hidden))
    assert logprobs == tuple(-float(position) for position in range(n_tokens))
