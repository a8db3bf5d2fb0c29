"""Turn a text into the set of its runs of five words, and compute the similarity of two such sets.

A run is stored as a 32-bit hash. In about one of 50,000 pairs of ordinary statements, two different runs share a hash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from curate.text.ngrams import hash_ngrams, hash_words

if TYPE_CHECKING:
    import numpy as np

    from curate.text.ngrams import Offsets

    Set = np.ndarray[tuple[int], np.dtype[np.uint32]]

WORDS_PER_SHINGLE = 5


@dataclass(frozen=True, slots=True)
class ShingleSets:
    """Several sets in one array: set i is values[offsets[i] : offsets[i + 1]], sorted, each value once."""

    values: "Set"
    offsets: "Offsets"


def shingles(texts: Sequence[str]) -> ShingleSets:
    """Return a set for each text. A text of fewer than five words is a single shingle, so no set is empty."""
    import numpy as np

    words = hash_words(texts)
    long_enough = hash_ngrams(words, WORDS_PER_SHINGLE)
    values, offsets = (long_enough.hashes >> np.uint64(32)).astype(np.uint32), long_enough.offsets
    short = np.flatnonzero(np.diff(offsets) == 0)
    if len(short):
        whole = [_whole(words.hashes[words.offsets[text] : words.offsets[text + 1]].tolist()) for text in short]
        values = np.insert(values, offsets[short], np.array(whole, dtype=np.uint32))
        offsets = offsets + np.searchsorted(short, np.arange(len(offsets)))
    for begin, end in pairwise(offsets.tolist()):
        values[begin:end].sort()
    first = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    first[offsets[:-1]] = True
    kept_before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(first)))
    return ShingleSets(values[first], kept_before[offsets])


def jaccard(left: "Set", right: "Set") -> float:
    """Return the Jaccard similarity: the size of the intersection divided by the size of the union."""
    import numpy as np

    both = np.concatenate((left, right))
    both.sort(kind="stable")  # a stable sort merges parts that are already sorted
    common = int(np.count_nonzero(both[1:] == both[:-1]))
    return common / (len(both) - common)


def _whole(word_hashes: list[int]) -> int:
    """Hash all words of a short text to one 32-bit value."""
    value = len(word_hashes)
    for word_hash in word_hashes:
        value = (value * 0x9FB21C651E98DF25 + word_hash) % 2**64
    return (value * 0xD6E8FEB86659FD93 % 2**64) >> 32
