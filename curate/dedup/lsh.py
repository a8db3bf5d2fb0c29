"""Locality-sensitive hashing for a fixed set of rows: each band is sorted, and rows with equal keys form a bucket.

Two rows are candidates if all ROWS minima of one of BANDS bands agree. At a Jaccard similarity of 0.7, 25 bands of 5
minima miss 1 of 100 pairs; at 0.6, they miss 1 of 8. A threshold below 0.7 therefore needs bands of fewer minima
(`choose_shape`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from curate.dedup.signatures import PERMUTATIONS

if TYPE_CHECKING:
    import numpy as np

    from curate.dedup.signatures import Signatures

    Keys = np.ndarray[Any, np.dtype[np.uint64]]

BANDS, ROWS = 25, 5
MAX_KEPT = 1000  # rows per bucket; fuller buckets hold boilerplate, and other bands find similar pairs of their rows
_ODD = 0x9E3779B97F4A7C15
_MAX_MISS_RATE = 0.0105  # maximum share of missed pairs at a threshold; BANDS and ROWS reach it at 0.7


def choose_shape(threshold: float) -> tuple[int, int]:
    """Return the numbers of bands and of minima per band. They miss at most 1 % of the pairs at the threshold."""
    for n_rows in range(ROWS, 1, -1):
        n_bands = BANDS if n_rows == ROWS else PERMUTATIONS // n_rows
        if (1 - threshold**n_rows) ** n_bands <= _MAX_MISS_RATE:
            return n_bands, n_rows
    return PERMUTATIONS, 1


def compute_band_keys(signatures: "Signatures", shape: tuple[int, int] = (BANDS, ROWS)) -> "Keys":
    """Return a 64-bit key for each row and band. Collisions only add candidates for the exact comparison.

    shape: number of bands, and of minima per band
    """
    import numpy as np

    n_bands, n_minima = shape
    rows = signatures[:, : n_bands * n_minima].reshape(len(signatures), n_bands, n_minima)
    numbers = rows[:, :, 0].astype(np.uint64)
    for index in range(1, n_minima):
        numbers *= np.uint64(_ODD)
        numbers ^= numbers >> np.uint64(32)
        numbers += rows[:, :, index]
    return numbers


class LshIndex:
    """The buckets shared by several rows, and the kept rows in each. Takes some 110 bytes per row.

    rows      numbers of the rows that share a bucket, ascending; parameters `row` are indices into this array
    overfull  buckets with too many kept rows to compare all of them
    """

    def __init__(self, n_rows: int, bands: Iterable["Keys"]) -> None:
        """Find the shared buckets. bands: the keys of all rows, one band after another"""
        import numpy as np

        is_shared = np.zeros(n_rows, dtype=bool)
        members = []
        n_buckets = 0
        for keys in bands:
            rows, is_first = _find_shared_rows(keys)
            is_shared[rows] = True
            members.append((rows, (np.cumsum(is_first) + (n_buckets - 1)).astype(np.int32)))
            n_buckets += int(np.count_nonzero(is_first))
        self.rows = np.flatnonzero(is_shared)
        indices = np.cumsum(is_shared, dtype=np.int32) - 1
        # A row without a shared bucket in a band gets the last bucket, which stays empty.
        self._buckets = np.full((len(self.rows), len(members)), n_buckets, dtype=np.int32)
        for band in reversed(range(len(members))):
            rows, buckets = members.pop()
            self._buckets[indices[rows], band] = buckets
        # Most buckets have only one kept row, so an array of first rows avoids a dictionary with a million lists.
        self._first_kept = np.full(n_buckets + 1, -1, dtype=np.int32)
        self._kept_later: dict[int, list[int]] = {}
        self.overfull: set[int] = set()

    def find_candidates(self, row: int) -> list[int]:
        """Return the kept rows that share a bucket with this row, each once."""
        buckets = self._buckets[row]
        kept = set(self._first_kept[buckets].tolist())
        kept.discard(-1)
        if kept and self._kept_later:
            for bucket in buckets.tolist():
                if bucket in self._kept_later:
                    kept.update(self._kept_later[bucket])
        return list(kept)

    def add_kept(self, row: int) -> None:
        """Make a kept row a candidate for later rows."""
        buckets = self._buckets[row]
        is_taken = self._first_kept[buckets] >= 0
        self._first_kept[buckets[~is_taken]] = row
        self._first_kept[-1] = -1
        for bucket in buckets[is_taken].tolist():
            if len(later := self._kept_later.setdefault(bucket, [])) < MAX_KEPT - 1:
                later.append(row)
            else:
                self.overfull.add(bucket)


def _find_shared_rows(keys: "Keys") -> tuple[Any, Any]:
    """Return the rows with a repeated key, bucket by bucket, and flags of the first row of each bucket.

    Row numbers replace the lowest bits of the keys, because a sort of numbers is faster than an argsort.
    """
    import numpy as np

    n_bits = np.uint64(max(len(keys) - 1, 1).bit_length())
    numbered = (keys >> n_bits << n_bits) | np.arange(len(keys), dtype=np.uint64)
    numbered.sort()
    in_order = numbered >> n_bits
    is_first = np.ones(len(keys), dtype=bool)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    is_shared = ~is_first
    is_shared[:-1] |= is_shared[1:]
    rows = (numbered[is_shared] & ((np.uint64(1) << n_bits) - np.uint64(1))).astype(np.int32)
    return rows, is_first[is_shared]
