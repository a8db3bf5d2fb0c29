"""pass@j for all j that the samples allow, and how many problems are always solved."""

from collections.abc import Sequence
from math import nan
from statistics import fmean

from curate.difficulty.pass_at_k import pass_at_k


def pass_at_each(counts: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Return pass@j for each j from 1 to the smallest number of samples of a problem.

    counts: the number of samples of each problem, at least one, and the number of right ones among them.
    As in LiveCodeBench, a j that is larger than the number of samples of any problem is left out.
    """
    smallest = min((n for n, _ in counts), default=0)
    return {j: _mean_estimate(counts, j) for j in range(1, smallest + 1)}


def select_powers_of_two(estimates: dict[int, float]) -> dict[int, float]:
    """Return the entries for j = 1, 2, 4, 8 and so on, and the last one, which are enough for a table."""
    last = max(estimates, default=0)
    return {j: value for j, value in estimates.items() if j & (j - 1) == 0 or j == last}


def always_solved_share(counts: Sequence[tuple[int, int]]) -> float:
    """Return the share of problems all of whose samples are right; nan without problems."""
    return fmean(n == n_correct for n, n_correct in counts) if counts else nan


def _mean_estimate(counts: Sequence[tuple[int, int]], j: int) -> float:
    estimates = {(n, n_correct): pass_at_k(n, n_correct, j) for n, n_correct in set(counts)}
    return fmean(estimates[pair] or 0.0 for pair in counts)  # none of them is None, since j <= n
