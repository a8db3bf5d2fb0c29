"""Commitments equal TOPLOC's, survive small differences, and cannot be forged by odd bytes."""

import random
from math import inf

import numpy as np
import pytest
from honest_commitments import COMMITMENT_BYTES, commit
from hypothesis import given
from hypothesis import strategies as st

from train.sampling.commitment import (
    PRIME,
    Bfloat16Bits,
    K,
    MalformedCommitment,
    compute_commitment_distances,
    decode_commitments,
    evaluate_polynomials,
    find_injective_modulus,
    interpolate,
    select_top_k_indices,
)


def bfloat16(values: object) -> Bfloat16Bits:
    """Return the bits of numbers that bfloat16 can hold, or of those cut off to it."""
    return (np.asarray(values, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)


def states(n_tokens: int, width: int = 256, *, seed: int = 0, noise: float = 0.0) -> Bfloat16Bits:
    values = np.random.default_rng(seed).normal(size=(n_tokens, width))
    return bfloat16(values * (1 + noise * np.random.default_rng(seed + 1).normal(size=values.shape)))


def sparse(n_tokens: int, width: int, values: dict[int, float]) -> Bfloat16Bits:
    flat = np.zeros(n_tokens * width, dtype=np.float32)
    flat[list(values)] = list(values.values())
    return bfloat16(flat).reshape(n_tokens, width)


def test_the_bytes_are_those_of_the_reference() -> None:
    places = [5, 70, 129, 1000, 2047, 3000, 4000, 4095]
    hidden = sparse(32, 128, dict(zip(places, [8, -7.5, 7, -6.5, 6, -5.5, 5, -4.5], strict=True)))
    assert commit(hidden, k=8).hex() == "ffd937ea96f0e298ff50a31958871f6fa9c7" + "0000" * (K - 8)


def test_places_that_collide_lower_the_modulus() -> None:
    sent = commit(sparse(32, 4096, {0: 8, 65497: 7, 3: 6, 9: 5}), k=4)
    assert sent.hex() == "ffd84100aa6a38e21c6d" + "0000" * (K - 4)


def test_a_commitment_agrees_with_its_own_states() -> None:
    hidden = states(100)
    sent = commit(hidden)
    assert len(sent) == 4 * COMMITMENT_BYTES == 4 * 258
    found = compute_commitment_distances(decode_commitments(sent, 100), hidden)
    assert [(one.exponent_mismatches, one.mantissa_mean) for one in found] == [(0, 0)] * 4


def test_rounding_differs_little_and_other_states_differ_wholly() -> None:
    claimed = decode_commitments(commit(states(64)), 64)
    rounded, other = (
        compute_commitment_distances(claimed, states(64, noise=0.01)),
        compute_commitment_distances(claimed, states(64, seed=9)),
    )
    assert all(one.exponent_mismatches < 30 and one.mantissa_mean < 3 for one in rounded)
    assert all(one.exponent_mismatches > 100 for one in other)


def test_an_answer_can_be_shorter_than_a_chunk_has_values() -> None:
    hidden = states(1, width=64)
    assert compute_commitment_distances(decode_commitments(commit(hidden), 1), hidden)[0].exponent_mismatches == 0


def test_states_that_are_not_numbers_are_committed_to_as_bits() -> None:
    hidden = np.full((32, 64), 0xFFFF, dtype=np.uint16)
    (only,) = compute_commitment_distances(decode_commitments(commit(hidden), 32), hidden)
    assert only.exponent_mismatches in (0, 128)  # the bits of some of them lie beyond the field


def test_without_any_equal_exponent_the_mantissas_say_nothing() -> None:
    claimed = decode_commitments(commit(bfloat16(np.full((32, 8), 2.0))), 32)
    (only,) = compute_commitment_distances(claimed, bfloat16(np.full((32, 8), 1e30)))
    assert (only.exponent_mismatches, only.mantissa_mean) == (K, inf)


def test_of_equal_values_the_first_places_are_taken() -> None:
    assert list(select_top_k_indices(bfloat16([1, -2, 1, 1]), 2)) == [1, 0]


@pytest.mark.parametrize(
    ("data", "n_tokens"),
    [
        (b"", 1),
        (b"\0\0", 1),
        (b"\0" * COMMITMENT_BYTES, 1),  # modulus 0, on which the reference crashes
        (b"\xff" * COMMITMENT_BYTES, 1),
        (b"\xff\xd9" + b"\xff\xff" * 128, 1),  # coefficients beyond the field
        (b"\xff\xd9" + b"\0" * 256 + b"\0", 32),  # one byte more, which the reference accepts
        (b"\xff\xd9" + b"\0" * 256, 33),  # too few chunks, which the reference accepts
    ],
)
def test_malformed_bytes_are_refused(data: bytes, n_tokens: int) -> None:
    with pytest.raises(MalformedCommitment):
        decode_commitments(data, n_tokens)


def test_whatever_the_bytes_are_nothing_else_is_raised() -> None:
    rng = random.Random(0)
    hidden = states(64, width=16)
    for _ in range(10_000):
        size = rng.choice((0, 1, COMMITMENT_BYTES, 2 * COMMITMENT_BYTES, rng.randrange(1000)))
        data = bytearray(rng.randbytes(size))
        if rng.random() < 0.5:
            data[::COMMITMENT_BYTES] = b"\xf0" * len(data[::COMMITMENT_BYTES])  # more of them are well formed then
        try:
            found = decode_commitments(bytes(data), 64)
        except MalformedCommitment:
            continue
        assert all(0 <= one.exponent_mismatches <= 128 for one in compute_commitment_distances(found, hidden))


@given(st.lists(st.tuples(st.integers(0, PRIME - 1), st.integers(0, PRIME - 1)), min_size=1, max_size=20))
def test_polynomials_go_through_their_points(points: list[tuple[int, int]]) -> None:
    by_x = dict(points)
    x, y = np.array([list(by_x)]), np.array([list(by_x.values())])
    assert (evaluate_polynomials(interpolate(x, y), x) == y).all()


@given(st.sets(st.integers(0, 10**6), min_size=1, max_size=128))
def test_a_modulus_keeps_places_apart(places: set[int]) -> None:
    modulus = find_injective_modulus(np.array(sorted(places)))
    assert len({place % modulus for place in places}) == len(places)
