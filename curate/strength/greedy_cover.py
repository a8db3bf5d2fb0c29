"""Few tests that reject all that all tests reject."""

from collections.abc import Collection, Sequence


def cover(killers: Collection[frozenset[int]], places: Sequence[int]) -> tuple[int, ...]:
    """Few places such that each mutant is killed at one of them; first the one that kills most, and so on.

    killers holds, of each mutant, the places that kill it. Of equally good places the first in `places` is taken.
    """
    left = list(killers)
    chosen: list[int] = []
    while left:
        chosen.append(max(places, key=lambda place: sum(place in row for row in left)))
        left = [row for row in left if chosen[-1] not in row]
    return tuple(chosen)
