import random
from itertools import combinations, pairwise

import numpy as np
import pytest
from datasketch import MinHash, MinHashLSH
from source_rows import words

from curate.dedup import lsh
from curate.dedup.lsh import BANDS, ROWS, LshIndex, compute_band_keys
from curate.dedup.signatures import PERMUTATIONS, compute_jaccard, compute_shingles, compute_signatures


def variants():
    """Return texts of which some pairs are very similar, some are slightly similar, and most are not similar at all."""
    rng = random.Random(0)
    texts = []
    for seed in range(12):
        original = words(seed, 80).split()
        for share in (0, 0.01, 0.03, 0.06, 0.12):
            texts.append(" ".join("other" if rng.random() < share else word for word in original))
    return texts


def signed(texts):
    sets = compute_shingles(texts)
    return compute_signatures(sets.values, sets.offsets)


def indexed(signed_rows, shape=(BANDS, ROWS)):
    return LshIndex(len(signed_rows), compute_band_keys(signed_rows, shape).T)


def pairs(index):
    """Return the candidate pairs if every row is kept, by the numbers of the rows."""
    met = set()
    for row, number in enumerate(index.rows.tolist()):
        met |= {(int(index.rows[other]), number) for other in index.find_candidates(row)}
        index.add_kept(row)
    return met


def test_candidates_are_those_of_datasketch_with_the_same_bands():
    signed_rows = signed(variants())
    index = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
    theirs = set()
    for row, signature in enumerate(signed_rows):
        minhash = MinHash(hashvalues=signature, scheme="affine32")
        theirs |= {(other, row) for other in index.query(minhash)}
        index.insert(row, minhash)
    assert pairs(indexed(signed_rows)) == theirs
    assert len(theirs) > 50


def test_rows_that_share_nothing_are_not_in_the_index():
    index = indexed(signed([words(seed, 80) for seed in (0, 1, 2, 1, 3)]))
    assert index.rows.tolist() == [1, 3]
    assert pairs(index) == {(1, 3)}


def test_rows_that_are_not_kept_are_never_candidates():
    bands = indexed(signed(["a b c"] * 3))
    assert bands.find_candidates(0) == []
    bands.add_kept(0)
    assert bands.find_candidates(1) == [0]
    assert bands.find_candidates(2) == [0]


def test_no_rows_make_no_buckets():
    assert pairs(LshIndex(0, [])) == set()
    assert pairs(indexed(signed([]))) == set()


def test_a_bucket_has_a_largest_size_and_is_remembered(monkeypatch):
    monkeypatch.setattr(lsh, "MAX_KEPT", 3)
    rows = np.zeros((5, PERMUTATIONS), dtype=np.uint32)
    rows[:, ROWS:] = np.arange(5, dtype=np.uint32)[:, None]  # boilerplate: one band is equal, the others are not
    bands = indexed(rows)
    assert pairs(bands) == {*combinations(range(4), 2), (0, 4), (1, 4), (2, 4)}
    assert len(bands.overfull) == 1


@pytest.mark.parametrize("threshold", [0.9, 0.7, 0.5, 0.3])
def test_bands_for_a_threshold_find_the_pairs_that_reach_it(threshold):
    texts = variants()
    sets = compute_shingles(texts)
    members = [sets.values[begin:end] for begin, end in pairwise(sets.offsets.tolist())]
    met = pairs(indexed(signed(texts), lsh.choose_shape(threshold)))
    alike = {
        (first, second)
        for first, second in combinations(range(len(texts)), 2)
        if compute_jaccard(members[first], members[second]) >= threshold
    }
    assert alike
    assert alike <= met


def test_bands_are_no_finer_than_a_threshold_needs():
    assert [lsh.choose_shape(threshold) for threshold in (1.0, 0.7, 0.5, 0.3)] == [(25, 5), (25, 5), (42, 3), (64, 2)]
