"""A text as the set of its runs of five words, and how alike two such sets are.

A run is a 32-bit hash: two different runs of a pair of ordinary statements share one in some 50,000 pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from curate.text.ngrams import hashed, runs

if TYPE_CHECKING:
    import numpy as np

    from curate.text.ngrams import Offsets

    Set = np.ndarray[tuple[int], np.dtype[np.uint32]]

WORDS_PER_SHINGLE = 5


@dataclass(frozen=True, slots=True)
class Sets:
    """Several sets in one array: set i is values[offsets[i] : offsets[i + 1]], sorted, each value once."""

    values: "Set"
    offsets: "Offsets"


def shingles(texts: Sequence[str]) -> Sets:
    """A set for each text. One of fewer than five words is one shingle, so no set is empty."""
    import numpy as np

    words = hashed(texts)
    found = runs(words, WORDS_PER_SHINGLE)
    values, offsets = (found.hashes >> np.uint64(32)).astype(np.uint32), found.offsets
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
    return Sets(values[first], kept_before[offsets])


def jaccard(one: "Set", other: "Set") -> float:
    """Size of the intersection over size of the union."""
    import numpy as np

    both = np.concatenate((one, other))
    both.sort(kind="stable")  # which merges what is sorted already
    common = int(np.count_nonzero(both[1:] == both[:-1]))
    return common / (len(both) - common)


def _whole(words: list[int]) -> int:
    """All words of a short text as one 32-bit value."""
    found = len(words)
    for word in words:
        found = (found * 0x9FB21C651E98DF25 + word) % 2**64
    return (found * 0xD6E8FEB86659FD93 % 2**64) >> 32
