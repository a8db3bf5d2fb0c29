"""Locality-sensitive hashing for rows that are all known in advance: each band is sorted, and equal keys share it.

Two rows are candidates if all ROWS minima of one of BANDS bands agree. With 25 bands of 5 minima, a pair with a Jaccard
similarity of 0.7 is missed by chance once in 100 times, a pair with 0.8 practically never, and a pair with 0.6 once in
eight times. A threshold below 0.7 therefore misses many pairs, and needs bands of fewer minima (`choose_shape`).
Sorting needs 200 bytes a row; an index of dictionaries would need 6,000.
"""

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from curate.dedup.minhash import PERMUTATIONS

if TYPE_CHECKING:
    import numpy as np

    from curate.dedup.minhash import Signatures

    Keys = np.ndarray[tuple[int, int], np.dtype[np.uint64]]

BANDS, ROWS = 25, 5
# A bucket with this many kept rows contains boilerplate. Further kept rows are found through their other bands.
MAX_KEPT = 1000
_ODD = 0x9E3779B97F4A7C15
_MISSED = 0.0105  # share of the pairs at a threshold that may be missed by chance: that of 0.7 with these bands


def choose_shape(threshold: float) -> tuple[int, int]:
    """Return the number of bands and of minima in each, so that one such pair in a hundred is missed at most."""
    for n_rows in range(ROWS, 1, -1):
        n_bands = BANDS if n_rows == ROWS else PERMUTATIONS // n_rows
        if (1 - threshold**n_rows) ** n_bands <= _MISSED:
            return n_bands, n_rows
    return PERMUTATIONS, 1


def band_keys(signatures: "Signatures", shape: tuple[int, int] = (BANDS, ROWS)) -> "Keys":
    """Return a 64-bit key for each row and band. Rows that share a key by chance are distinguished later.

    shape: number of bands, and of minima in each
    """
    import numpy as np

    n_bands, n_minima = shape
    rows = signatures[:, : n_bands * n_minima].reshape(len(signatures), n_bands, n_minima)
    numbers = rows[:, :, 0].astype(np.uint64)
    for place in range(1, n_minima):
        numbers *= np.uint64(_ODD)
        numbers ^= numbers >> np.uint64(32)
        numbers += rows[:, :, place]
    return numbers


class LshIndex:
    """The buckets that several rows share, and the kept rows in each of them."""

    def __init__(self, blocks: Iterable["Keys"]) -> None:
        """Find the shared buckets. blocks: the keys of all rows, in order."""
        import numpy as np

        parts = list(blocks) or [np.empty((0, BANDS), dtype=np.uint64)]
        n_rows = sum(map(len, parts))
        members, buckets = [], []
        n_buckets = 0
        for band in range(parts[0].shape[1]):
            keys_of_rows = np.concatenate([part[:, band] for part in parts])
            order = np.argsort(keys_of_rows)
            in_order = keys_of_rows[order]
            like_next = in_order[1:] == in_order[:-1]
            shared = np.zeros(n_rows, dtype=bool)
            shared[1:] |= like_next
            shared[:-1] |= like_next
            first = np.ones(n_rows, dtype=bool)
            first[1:] = ~like_next
            members.append(order[shared])
            buckets.append(np.cumsum(first[shared]) - 1 + n_buckets)
            n_buckets += int(np.count_nonzero(first & shared))
        member = np.concatenate(members)
        by_row = np.argsort(member, kind="stable")
        self._buckets = np.concatenate(buckets)[by_row]
        self._ends = np.searchsorted(member[by_row], np.arange(n_rows + 1)).tolist()
        # Most buckets have only one kept row, and a dictionary of a million lists is slow to fill.
        self._first_kept = array("q", [-1]) * n_buckets
        self._kept_later: dict[int, list[int]] = {}
        self.overfull: set[int] = set()

    def candidates(self, row: int) -> set[int]:
        """Return the kept rows that share a band with this row."""
        sharing = set()
        for bucket in self._buckets_of(row):
            first = self._first_kept[bucket]
            if first >= 0:
                sharing.add(first)
                if bucket in self._kept_later:
                    sharing.update(self._kept_later[bucket])
        return sharing

    def add_kept(self, row: int) -> None:
        """Note that this row is kept, so that it becomes a candidate for later rows."""
        for bucket in self._buckets_of(row):
            if self._first_kept[bucket] < 0:
                self._first_kept[bucket] = row
            elif len(later := self._kept_later.setdefault(bucket, [])) < MAX_KEPT - 1:
                later.append(row)
            else:
                self.overfull.add(bucket)

    def _buckets_of(self, row: int) -> list[int]:
        begin, end = self._ends[row : row + 2]
        buckets: list[int] = self._buckets[begin:end].tolist() if begin < end else []
        return buckets
