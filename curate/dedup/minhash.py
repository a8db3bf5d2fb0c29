"""MinHash signatures in bulk, bit for bit those of datasketch 2 (scheme "affine32", its default seed).

datasketch applies the 128 permutations to one set at a time. Here each permutation goes over the sets of a
hundred texts at once: the same arithmetic in a few calls of numpy instead of a few for each text.
"""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from curate.text.ngrams import Offsets

    Set32 = np.ndarray[tuple[int], np.dtype[np.uint32]]
    Signatures = np.ndarray[tuple[int, int], np.dtype[np.uint32]]

PERMUTATIONS = 128
# The values of so many texts and one permutation of them stay in the second cache.
TEXTS_AT_ONCE = 128


def signatures(values: "Set32", offsets: "Offsets") -> "Signatures":
    """A row of PERMUTATIONS minima for each set values[offsets[i] : offsets[i + 1]]; no set may be empty.

    The values are 32-bit hashes of the members, as `MinHash.bulk(..., hashfunc=int)` takes them.
    """
    import numpy as np

    multipliers, addends = _permutations()
    found = np.empty((len(offsets) - 1, PERMUTATIONS), dtype=np.uint32)
    minima = np.empty((PERMUTATIONS, TEXTS_AT_ONCE), dtype=np.uint32)
    for first in range(0, len(found), TEXTS_AT_ONCE):
        last = min(first + TEXTS_AT_ONCE, len(found))
        mixed = _finalised(values[offsets[first] : offsets[last]])
        starts = offsets[first:last] - offsets[first]
        permuted = np.empty_like(mixed)
        for number in range(PERMUTATIONS):
            np.multiply(mixed, multipliers[number], out=permuted)
            np.add(permuted, addends[number], out=permuted)
            np.minimum.reduceat(permuted, starts, out=minima[number, : last - first])
        found[first:last] = minima[:, : last - first].T
    return found


@cache
def _permutations() -> tuple["Set32", "Set32"]:
    """The multipliers and addends that datasketch draws."""
    from datasketch import MinHash

    multipliers, addends = MinHash(num_perm=PERMUTATIONS, scheme="affine32").permutations
    return multipliers, addends


def _finalised(values: "Set32") -> "Set32":
    """MurmurHash3's last step, which datasketch puts before the permutations."""
    import numpy as np

    mixed = values ^ (values >> np.uint32(16))
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    return mixed
