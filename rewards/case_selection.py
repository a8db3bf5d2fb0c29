"""Selection of the tests that a reward runs, because running all may take too long. Strategies:

all        all cases
longest    the cases with the longest inputs: DeepCoder's rule, which undervalues tests of many small cases
strongest  first the few cases that together kill as many mutants as all cases (curate/strength/measurement.py), then
           random ones, which reject more wrong programs than the longest ones
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rewards.argument_checks import check_int
from sandbox import Suite

DEFAULT_MAX_CASES = 15  # as in DeepCoder
STRATEGIES = ("longest", "strongest", "all")


def select_cases(
    suite: Suite, strategy: str, *, budget: int = DEFAULT_MAX_CASES, strongest: Sequence[int] | None = None
) -> Suite:
    """Return the suite with only the selected cases. Deterministic.

    strategy   one of STRATEGIES
    budget     maximum number of cases, unless `strategy` is "all"
    strongest  value of the column strongest_tests: indices of the cases that kill mutants; if empty, the strategy
               "strongest" selects random cases

    Raises ValueError for an unknown `strategy`, a budget below 1, and indices that the suite lacks.
    """
    check_strategy(strategy, budget)
    if strategy == "all":
        return suite
    indices = order_by_length(suite) if strategy == "longest" else _order_by_strength(suite, strongest or ())
    return keep_cases(suite, indices[:budget])


def check_strategy(strategy: str, budget: int, *, names: tuple[str, str] = ("strategy", "budget")) -> None:
    """Raise ValueError or TypeError for invalid arguments of `select_cases`. names: their names in error messages"""
    if strategy not in STRATEGIES:
        raise ValueError(f"{names[0]} must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    check_int(names[1], budget)


def keep_cases(suite: Suite, indices: Iterable[int]) -> Suite:
    """Return the suite with only the cases at these indices, in this order."""
    return replace(suite, cases=tuple(suite.cases[index] for index in indices))


def order_by_length(suite: Suite) -> list[int]:
    """Return the indices of the cases, sorted by the length of the input, the longest first."""
    return sorted(range(len(suite.cases)), key=lambda index: -len(suite.cases[index].input))


def _order_by_strength(suite: Suite, strongest: Sequence[int]) -> list[int]:
    others = sorted(set(range(len(suite.cases))) - set(strongest))
    if len(others) + len(strongest) != len(suite.cases):
        raise ValueError(
            f"strongest must be distinct indices of the suite's {len(suite.cases)} cases, not {list(strongest)}"
        )
    random.Random(0).shuffle(others)
    return [*strongest, *others]
