import numpy as np
import pytest
from datasketch import MinHash
from hypothesis import given
from hypothesis import strategies as st
from source_rows import words

from curate.dedup.signatures import PERMUTATIONS, TEXT_BATCH, compute_jaccard, compute_shingles, compute_signatures

TEXTS = st.lists(st.lists(st.sampled_from("ab"), max_size=12).map(" ".join), min_size=1, max_size=5)


def by_definition(text):
    parts = text.split()
    return {tuple(parts[start : start + 5]) for start in range(max(1, len(parts) - 4))}


def by_text(texts):
    sets = compute_shingles(texts)
    return np.split(sets.values, sets.offsets[1:-1])


@given(TEXTS)
def test_sets_are_sorted_without_repeats_and_as_similar_as_the_runs(texts):
    sets = by_text(texts)
    runs = list(map(by_definition, texts))
    for values, expected in zip(sets, runs, strict=True):
        assert values.tolist() == sorted(set(values.tolist()))
        assert len(values) == len(expected)
    for one, runs_of_one in zip(sets, runs, strict=True):
        for other, runs_of_other in zip(sets, runs, strict=True):
            similarity = len(runs_of_one & runs_of_other) / len(runs_of_one | runs_of_other)
            assert compute_jaccard(one, other) == pytest.approx(similarity)


def test_each_short_text_is_a_single_shingle_of_its_own():
    one, other, none, again = by_text(["add two numbers", "subtract two numbers", "?!", "Add two numbers."])
    assert compute_jaccard(one, other) == 0
    assert compute_jaccard(one, again) == 1
    assert len(none) == 1


def test_a_text_has_the_same_set_alone_and_among_others():
    texts = ["a", "a b c d e f a b c d e", "", "f e d c b a"]
    assert [found.tolist() for found in by_text(texts)] == [by_text([text])[0].tolist() for text in texts]


def test_signatures_are_bit_for_bit_those_of_datasketch():
    # More texts than one batch takes, of one word and more.
    sets = compute_shingles([words(seed, n=1 + seed * 3) for seed in range(TEXT_BATCH + 30)])
    parts = [part.tolist() for part in np.split(sets.values, sets.offsets[1:-1])]
    theirs = [made.hashvalues for made in MinHash.bulk(parts, num_perm=PERMUTATIONS, hashfunc=int)]
    ours = compute_signatures(sets.values, sets.offsets)
    assert ours.dtype == np.uint32
    assert np.array_equal(ours, theirs)


def test_extreme_values_are_signed_as_datasketch_does():
    values = np.array([0, 1, 2**31, 2**32 - 1], dtype=np.uint32)
    (theirs,) = MinHash.bulk([values.tolist()], num_perm=PERMUTATIONS, hashfunc=int)
    assert np.array_equal(compute_signatures(values, np.array([0, 4]))[0], theirs.hashvalues)


def test_no_sets_give_no_sign():
    assert compute_signatures(np.empty(0, dtype=np.uint32), np.zeros(1, dtype=np.int64)).shape == (0, PERMUTATIONS)
