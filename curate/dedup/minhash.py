"""Compute MinHash signatures in bulk, bit for bit the same as in datasketch 2 (scheme "affine32", default seed).

datasketch applies the 128 permutations to one set at a time. Here each permutation is applied to the sets of a
hundred texts at once, so the same arithmetic needs a few calls of numpy for all of them instead of a few for each.
"""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from curate.text.ngrams import Offsets

    Set32 = np.ndarray[tuple[int], np.dtype[np.uint32]]
    Signatures = np.ndarray[tuple[int, int], np.dtype[np.uint32]]

PERMUTATIONS = 128
# The values of this many texts and one permutation of these values fit into the second-level cache.
TEXT_BATCH = 128


def signatures(values: "Set32", offsets: "Offsets") -> "Signatures":
    """Return a row of PERMUTATIONS minima for each set values[offsets[i] : offsets[i + 1]]. No set may be empty.

    The values are 32-bit hashes of the members, such as `MinHash.bulk(..., hashfunc=int)` takes.
    """
    import numpy as np

    multipliers, addends = permutations()
    signed = np.empty((len(offsets) - 1, PERMUTATIONS), dtype=np.uint32)
    minima = np.empty((PERMUTATIONS, TEXT_BATCH), dtype=np.uint32)
    for first in range(0, len(signed), TEXT_BATCH):
        last = min(first + TEXT_BATCH, len(signed))
        mixed = _finalised(values[offsets[first] : offsets[last]])
        starts = offsets[first:last] - offsets[first]
        permuted = np.empty_like(mixed)
        for number in range(PERMUTATIONS):
            np.multiply(mixed, multipliers[number], out=permuted)
            np.add(permuted, addends[number], out=permuted)
            np.minimum.reduceat(permuted, starts, out=minima[number, : last - first])
        signed[first:last] = minima[:, : last - first].T
    return signed


@cache
def permutations() -> tuple["Set32", "Set32"]:
    """Return the multipliers and addends that datasketch draws, without importing it, which takes a second."""
    import numpy as np

    random = np.random.RandomState(1)
    multipliers = random.randint(0, 1 << 31, PERMUTATIONS, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return multipliers, random.randint(0, 1 << 32, PERMUTATIONS, dtype=np.uint32)


def _finalised(values: "Set32") -> "Set32":
    """Apply the last step of MurmurHash3, as datasketch does before the permutations."""
    import numpy as np

    mixed = values ^ (values >> np.uint32(16))
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    return mixed
