"""pass@k: the chance that at least one of k samples solves a problem, estimated without bias from n of them."""

from math import comb


def pass_at_k(n: int, n_correct: int, k: int) -> float | None:
    """1 - C(n - n_correct, k) / C(n, k), the share of all choices of k among the n samples that hold a correct one.

    Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1. In whole numbers, which do not
    overflow here, so that what comes out is the float next to the true value. None: fewer than k samples are known.
    Raises ValueError for numbers that cannot be.
    """
    if k < 1 or not 0 <= n_correct <= n:
        raise ValueError(f"no pass@k of k={k} with {n_correct} of n={n} correct")
    if n < k:
        return None
    return (comb(n, k) - comb(n - n_correct, k)) / comb(n, k)
