"""The unbiased estimate of pass@k: the probability that at least one of k samples solves a problem."""

from math import comb


def pass_at_k(n: int, n_correct: int, k: int) -> float | None:
    """Return 1 - C(n - n_correct, k) / C(n, k): the share of choices of k of n samples with a correct one.

    See Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1. Integer arithmetic makes the
    result the float nearest to the true value. Returns None if n < k. Raises ValueError for impossible numbers.
    """
    if k < 1 or not 0 <= n_correct <= n:
        raise ValueError(f"no pass@k of k={k} with {n_correct} of n={n} correct")
    if n < k:
        return None
    return (comb(n, k) - comb(n - n_correct, k)) / comb(n, k)
