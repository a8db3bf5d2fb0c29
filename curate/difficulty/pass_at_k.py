"""Estimate pass@k without bias: the probability that at least one of k samples solves a problem, given n samples."""

from math import comb


def pass_at_k(n: int, n_correct: int, k: int) -> float | None:
    """Return 1 - C(n - n_correct, k) / C(n, k), the share of all choices of k of n samples that contain a correct one.

    See Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1. It is computed with integers,
    which do not overflow, so the result is the float nearest to the true value. It is None if there are fewer than k
    samples. Raises ValueError for impossible numbers.
    """
    if k < 1 or not 0 <= n_correct <= n:
        raise ValueError(f"no pass@k of k={k} with {n_correct} of n={n} correct")
    if n < k:
        return None
    return (comb(n, k) - comb(n - n_correct, k)) / comb(n, k)
