"""Locality-sensitive hashing for a batch that is known as a whole: sort each band, and equal neighbours share it.

Two rows are candidates if all ROWS minima of one of BANDS bands agree. With 25 bands of 5 a pair of Jaccard
similarity 0.7 is missed once in 100 times by chance alone, one of 0.8 never; at 0.6 one in eight is, so thresholds
below 0.7 find less than they promise. Sorting needs 200 bytes a row; an index of dictionaries needs 6,000.
"""

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from curate.dedup.minhash import Signatures

    Keys = np.ndarray[tuple[int, int], np.dtype[np.uint64]]

BANDS, ROWS = 25, 5
# A bucket that holds so many kept rows holds boilerplate. Those beyond are met through their other bands.
MOST_KEPT = 1000
_ODD = 0x9E3779B97F4A7C15


def keys(signatures: "Signatures") -> "Keys":
    """One 64-bit number for each row and band; what two rows share by chance is found out later."""
    import numpy as np

    rows = signatures[:, : BANDS * ROWS].reshape(len(signatures), BANDS, ROWS)
    found = rows[:, :, 0].astype(np.uint64)
    for place in range(1, ROWS):
        found *= np.uint64(_ODD)
        found ^= found >> np.uint64(32)
        found += rows[:, :, place]
    return found


class Bands:
    """The buckets that rows share, and which rows in them are kept."""

    def __init__(self, blocks: Iterable["Keys"]) -> None:
        """blocks: the keys of all rows, in order."""
        import numpy as np

        parts = [np.empty((0, BANDS), dtype=np.uint64), *blocks]
        n_rows = sum(map(len, parts))
        members, buckets = [], []
        n_buckets = 0
        for band in range(BANDS):
            of_band = np.concatenate([part[:, band] for part in parts])
            order = np.argsort(of_band)
            in_order = of_band[order]
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
        # Most buckets have but one kept row, and a dictionary of a million lists is slow to fill.
        self._first_kept = array("q", [-1]) * n_buckets
        self._kept_later: dict[int, list[int]] = {}
        self.overfull: set[int] = set()

    def candidates(self, row: int) -> set[int]:
        """The kept rows that share a band with this one."""
        found = set()
        for bucket in self._of(row):
            first = self._first_kept[bucket]
            if first >= 0:
                found.add(first)
                if bucket in self._kept_later:
                    found.update(self._kept_later[bucket])
        return found

    def keep(self, row: int) -> None:
        """Rows that come later are compared with this one."""
        for bucket in self._of(row):
            if self._first_kept[bucket] < 0:
                self._first_kept[bucket] = row
            elif len(later := self._kept_later.setdefault(bucket, [])) < MOST_KEPT - 1:
                later.append(row)
            else:
                self.overfull.add(bucket)

    def _of(self, row: int) -> list[int]:
        begin, end = self._ends[row : row + 2]
        found: list[int] = self._buckets[begin:end].tolist() if begin < end else []
        return found
