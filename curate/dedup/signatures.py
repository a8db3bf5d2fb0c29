"""Sets of shingles (word 5-grams) of texts, their exact similarity, and MinHash signatures that estimate it.

A shingle is a 32-bit hash, with a collision in one of 50,000 pairs of ordinary statements. Signatures are bit-identical
to signatures by datasketch 2 (scheme "affine32", default seed). datasketch applies the 128 permutations to one set at a
time; this module applies each permutation to the sets of a hundred texts together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from curate.text.ngrams import MIX_MULTIPLIER, NGRAM_MULTIPLIER, hash_ngrams, hash_words

if TYPE_CHECKING:
    import numpy as np

    from curate.text.ngrams import Offsets

    Set = np.ndarray[tuple[int], np.dtype[np.uint32]]
    Signatures = np.ndarray[Any, np.dtype[np.uint32]]  # one row per set

WORDS_PER_SHINGLE = 5
PERMUTATIONS = 128
TEXT_BATCH = 128  # texts per batch; the values of a batch and one permutation of them fit into the L2 cache


@dataclass(frozen=True, slots=True)
class ShingleSets:
    """Several sets in one array: set i is values[offsets[i] : offsets[i + 1]], sorted, each value once."""

    values: "Set"
    offsets: "Offsets"


def compute_shingles(texts: Sequence[str]) -> ShingleSets:
    """Return a set for each text. A text of fewer than five words is a single shingle, so no set is empty."""
    import numpy as np

    words = hash_words(texts)
    long_enough = hash_ngrams(words, WORDS_PER_SHINGLE)
    values, offsets = (long_enough.hashes >> np.uint64(32)).astype(np.uint32), long_enough.offsets
    short = np.flatnonzero(np.diff(offsets) == 0)
    if len(short):
        whole = [
            _hash_short_text(words.hashes[words.offsets[text] : words.offsets[text + 1]].tolist()) for text in short
        ]
        values = np.insert(values, offsets[short], np.array(whole, dtype=np.uint32))
        offsets = offsets + np.searchsorted(short, np.arange(len(offsets)))
    for begin, end in pairwise(offsets.tolist()):
        values[begin:end].sort()
    first = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    first[offsets[:-1]] = True
    kept_before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(first)))
    return ShingleSets(values[first], kept_before[offsets])


def _hash_short_text(word_hashes: list[int]) -> int:
    value = len(word_hashes)
    for word_hash in word_hashes:
        value = (value * NGRAM_MULTIPLIER + word_hash) % 2**64
    return (value * MIX_MULTIPLIER % 2**64) >> 32


def compute_jaccard(left: "Set", right: "Set") -> float:
    """Return the Jaccard similarity of two sorted sets."""
    import numpy as np

    both = np.concatenate((left, right))
    both.sort(kind="stable")  # a stable sort merges sorted parts
    common = int(np.count_nonzero(both[1:] == both[:-1]))
    return common / (len(both) - common)


def compute_signatures(values: "Set", offsets: "Offsets") -> "Signatures":
    """Return a row of PERMUTATIONS minima for each non-empty set values[offsets[i] : offsets[i + 1]].

    values: 32-bit hashes of the members, as for `MinHash.bulk(..., hashfunc=int)`
    """
    import numpy as np

    multipliers, addends = create_permutations()
    signed = np.empty((len(offsets) - 1, PERMUTATIONS), dtype=np.uint32)
    minima = np.empty((PERMUTATIONS, TEXT_BATCH), dtype=np.uint32)
    for first in range(0, len(signed), TEXT_BATCH):
        last = min(first + TEXT_BATCH, len(signed))
        mixed = _finalize(values[offsets[first] : offsets[last]])
        starts = offsets[first:last] - offsets[first]
        permuted = np.empty_like(mixed)
        for number in range(PERMUTATIONS):
            np.multiply(mixed, multipliers[number], out=permuted)
            np.add(permuted, addends[number], out=permuted)
            np.minimum.reduceat(permuted, starts, out=minima[number, : last - first])
        signed[first:last] = minima[:, : last - first].T
    return signed


@cache
def create_permutations() -> tuple["Set", "Set"]:
    """Return the multipliers and addends of datasketch, without importing it, which takes a second."""
    import numpy as np

    random = np.random.RandomState(1)
    multipliers = random.randint(0, 1 << 31, PERMUTATIONS, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return multipliers, random.randint(0, 1 << 32, PERMUTATIONS, dtype=np.uint32)


def _finalize(values: "Set") -> "Set":
    """Apply the last step of MurmurHash3, like datasketch before the permutations."""
    import numpy as np

    mixed = values ^ (values >> np.uint32(16))
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    return mixed
