import numpy as np
from datasketch import MinHash
from source_rows import words

from curate.dedup.minhash import PERMUTATIONS, TEXT_BATCH, signatures
from curate.dedup.shingles import shingles


def test_signatures_are_bit_for_bit_those_of_datasketch():
    # More texts than one batch takes, of one word and more.
    sets = shingles([words(seed, n=1 + seed * 3) for seed in range(TEXT_BATCH + 30)])
    parts = [part.tolist() for part in np.split(sets.values, sets.offsets[1:-1])]
    theirs = [made.hashvalues for made in MinHash.bulk(parts, num_perm=PERMUTATIONS, hashfunc=int)]
    ours = signatures(sets.values, sets.offsets)
    assert ours.dtype == np.uint32
    assert np.array_equal(ours, theirs)


def test_extreme_values_are_signed_as_datasketch_does():
    values = np.array([0, 1, 2**31, 2**32 - 1], dtype=np.uint32)
    (theirs,) = MinHash.bulk([values.tolist()], num_perm=PERMUTATIONS, hashfunc=int)
    assert np.array_equal(signatures(values, np.array([0, 4]))[0], theirs.hashvalues)


def test_no_sets_give_no_signatures():
    assert signatures(np.empty(0, dtype=np.uint32), np.zeros(1, dtype=np.int64)).shape == (0, PERMUTATIONS)
