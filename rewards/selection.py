"""Which of a problem's tests a reward runs, where all of them would take too long.

all        every case
longest    the cases with the longest inputs: DeepCoder's rule, to which a test of many small cases looks weak
strongest  first those that together kill every mutant that can be killed (see curate/strength/measure.py), then others
           drawn blindly: by what they let through, blind ones beat the longest
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sandbox import Suite

BUDGET = 15  # DeepCoder's
WAYS = ("longest", "strongest", "all")


def select(suite: Suite, how: str, *, budget: int = BUDGET, strongest: Sequence[int] | None = None) -> Suite:
    """The suite with at most `budget` of its cases, or all of them; the same ones each time.

    strongest is the column of that name: places of the cases that kill mutants. Where it is missing or empty,
    nothing was measured, and all places are drawn blindly.
    Raises ValueError for another `how`, for a budget below 1, and for places that the suite does not have.
    """
    check_way(how, budget)
    if how == "all":
        return suite
    places = longest_first(suite) if how == "longest" else _strongest_first(suite, strongest or ())
    return picked(suite, places[:budget])


def check_way(how: str, budget: int) -> None:
    """Raises ValueError, naming the choices, for what `select` does not know."""
    if how not in WAYS:
        raise ValueError(f"how must be one of {', '.join(WAYS)}, not {how!r}")
    if budget < 1:
        raise ValueError(f"budget must be at least 1, not {budget}")


def picked(suite: Suite, places: Iterable[int]) -> Suite:
    """The suite with the cases at these places, in this order."""
    return replace(suite, cases=tuple(suite.cases[place] for place in places))


def longest_first(suite: Suite) -> list[int]:
    """Places of the cases, those with the longest inputs first."""
    return sorted(range(len(suite.cases)), key=lambda place: -len(suite.cases[place].input))


def _strongest_first(suite: Suite, strongest: Sequence[int]) -> list[int]:
    others = sorted(set(range(len(suite.cases))) - set(strongest))
    if len(others) + len(strongest) != len(suite.cases):
        raise ValueError(f"places {list(strongest)} are not those of a suite of {len(suite.cases)} cases")
    random.Random(0).shuffle(others)
    return [*strongest, *others]
