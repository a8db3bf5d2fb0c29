"""Choose a few tests that together reject everything that all tests reject."""

from collections.abc import Collection, Sequence


def greedy_cover(killing_tests: Collection[frozenset[int]], indices: Sequence[int]) -> tuple[int, ...]:
    """Return a few places such that each mutant is killed at one of them, beginning with the one that kills most.

    killing_tests  for each mutant, the places that kill it
    indices        all places; among equally good places, the first in this order is chosen
    """
    left = list(killing_tests)
    chosen: list[int] = []
    while left:
        chosen.append(max(indices, key=lambda index: sum(index in row for row in left)))
        left = [row for row in left if chosen[-1] not in row]
    return tuple(chosen)
