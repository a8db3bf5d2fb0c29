"""Which dataset a position of the data takes its prompt from, if a run mixes several.

Positions come in blocks. Within a block, the datasets have their shares almost exactly: the block is divided as evenly
as a comb that the seed shifts, so that over all blocks each share is right, however small it is. The order within a
block is shuffled. All of it follows from the seed, so a position is enough to continue from.
"""

import random
import threading
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

_BLOCK = 128  # positions
_MAX_CACHED_BLOCKS = 64  # a batch takes positions from a few


class Mixture:
    """Divides positions among datasets. weights: of each dataset, above 0; only their proportions matter."""

    def __init__(self, weights: Sequence[float], *, seed: int) -> None:
        self._seed = seed
        *self._bounds, _ = (bound / sum(weights) for bound in accumulate(weights))
        self._block = lru_cache(_MAX_CACHED_BLOCKS)(self._new_block)
        self._lock = threading.Lock()  # several threads ask
        self._before = [(0,) * len(weights)]  # for each block, how many prompts of each dataset come before it

    def locate(self, position: int) -> tuple[int, int]:
        """Return the number of the dataset, and how many prompts of this dataset come before this position."""
        if not self._bounds:
            return 0, position
        number, offset = divmod(position, _BLOCK)
        block = self._block(number)
        dataset = block[offset]
        return dataset, self._counts_before(number)[dataset] + block[:offset].count(dataset)

    def _counts_before(self, number: int) -> tuple[int, ...]:
        before = self._before
        with self._lock:
            while len(before) <= number:
                block = self._block(len(before) - 1)
                before.append(tuple(count + block.count(dataset) for dataset, count in enumerate(before[-1])))
        return before[number]

    def _new_block(self, number: int) -> list[int]:
        """Return the number of the dataset for each position of a block."""
        draw = random.Random(f"{self._seed} {number} mixture")
        shift = draw.random()
        block = [bisect_right(self._bounds, (place + shift) / _BLOCK) for place in range(_BLOCK)]
        draw.shuffle(block)
        return block
