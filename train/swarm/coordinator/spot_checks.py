"""Spot checks: a new node gets a lease whose completions another node has already produced.

It cannot tell. What it draws has to be what the other has drawn: the seeds say which tokens come. Engines differ in the
last bits, so now and then another token comes, and from there on another text; so it is counted how many tokens agree
before the first difference.
"""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from train.asynchronous.messages import Lease, unpack_tokens
from train.swarm.settings import Thresholds
from train.swarm.verification.mismatch_tolerance import max_mismatches

_POOL_SIZE = 32  # leases


@dataclass(frozen=True, slots=True)
class SpotCheck:
    """A lease that was accepted, who answered it, and the tokens of the answers, packed."""

    lease: Lease
    node: bytes
    tokens: tuple[bytes, ...]


class SpotCheckPool:
    """The latest leases that were accepted."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._latest: deque[SpotCheck] = deque(maxlen=_POOL_SIZE)
        self._rng = rng or random.SystemRandom()

    def add(self, known: SpotCheck) -> None:
        """Keep a lease that was accepted, and its answers."""
        self._latest.append(known)

    def draw(self, node: bytes, version: int) -> SpotCheck | None:
        """Return one of this version that another node has answered, or None."""
        able = [known for known in self._latest if known.lease.version == version and known.node != node]
        return self._rng.choice(able) if able else None


def matches_spot_check(expected: Sequence[bytes], observed: Sequence[bytes], thresholds: Thresholds) -> bool:
    """Return whether answers are the known ones, as far as engines that differ in the last bits can tell."""
    same = differing = 0
    for before, now in zip(expected, observed, strict=True):
        n, differs = _common(unpack_tokens(before), unpack_tokens(now))
        same, differing = same + n, differing + differs
    n_compared = same + differing
    if n_compared == 0:
        return True
    share = thresholds.seed_match_share**2  # both differ from what a verifier draws
    return differing <= max(1, max_mismatches(n_compared, share, thresholds.seed_match_sigmas))


def _common(before: Sequence[int], now: Sequence[int]) -> tuple[int, bool]:
    """Return how many first tokens are equal, and whether a difference follows."""
    for place, (one, other) in enumerate(zip(before, now, strict=False)):
        if one != other:
            return place, True
    return min(len(before), len(now)), len(before) != len(now)
