import random
from itertools import combinations

import numpy as np
from datasketch import MinHash, MinHashLSH
from source_rows import words

from curate.dedup import lsh
from curate.dedup.lsh import BANDS, ROWS, Bands, keys
from curate.dedup.minhash import PERMUTATIONS, signatures
from curate.dedup.shingles import shingles


def variants():
    """Texts of which some pairs are very alike, some a little and most not at all."""
    rng = random.Random(0)
    texts = []
    for seed in range(12):
        original = words(seed, 80).split()
        for share in (0, 0.01, 0.03, 0.06, 0.12):
            texts.append(" ".join("other" if rng.random() < share else word for word in original))
    return texts


def signed(texts):
    sets = shingles(texts)
    return signatures(sets.values, sets.offsets)


def pairs(found, n):
    """Candidate pairs when every row is kept."""
    met = set()
    for row in range(n):
        met |= {(other, row) for other in found.candidates(row)}
        found.keep(row)
    return met


def test_candidates_are_those_of_datasketch_with_the_same_bands():
    made = signed(variants())
    index = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
    theirs = set()
    for row, signature in enumerate(made):
        minhash = MinHash(hashvalues=signature, scheme="affine32")
        theirs |= {(other, row) for other in index.query(minhash)}
        index.insert(row, minhash)
    assert pairs(Bands([keys(made)]), len(made)) == theirs
    assert len(theirs) > 50


def test_blocks_of_rows_are_one_batch():
    made = signed(variants())
    whole, parts = Bands([keys(made)]), Bands([keys(made[:7]), keys(made[7:8]), keys(made[8:])])
    assert pairs(whole, len(made)) == pairs(parts, len(made))


def test_rows_that_are_not_kept_are_nobodys_candidates():
    found = Bands([keys(signed(["a b c"] * 3))])
    assert found.candidates(0) == set()
    found.keep(0)
    assert found.candidates(1) == {0}
    assert found.candidates(2) == {0}


def test_no_rows_make_no_buckets():
    assert pairs(Bands([]), 0) == set()


def test_a_bucket_takes_no_more_than_its_share_and_is_remembered(monkeypatch):
    monkeypatch.setattr(lsh, "MOST_KEPT", 3)
    rows = np.zeros((5, PERMUTATIONS), dtype=np.uint32)
    rows[:, ROWS:] = np.arange(5, dtype=np.uint32)[:, None]  # boilerplate: one band alike, the others not
    found = Bands([keys(rows)])
    assert pairs(found, 5) == {*combinations(range(4), 2), (0, 4), (1, 4), (2, 4)}
    assert len(found.overfull) == 1
