"""The unbiased estimate of pass@k: the probability that at least one of k samples solves a problem."""

from math import comb


def pass_at_k(n: int, n_correct: int, k: int) -> float | None:
    """Return 1 - C(n - n_correct, k) / C(n, k): the share of k-subsets of n samples that contain a correct one.

    See Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1. Integer arithmetic makes the
    result the float nearest to the true value. Returns None if n < k. Raises ValueError if k < 1 or n_correct is not in
    0..n.
    """
    if k < 1 or not 0 <= n_correct <= n:
        raise ValueError(f"pass@k requires k >= 1 and 0 <= n_correct <= n, not k={k}, n_correct={n_correct}, n={n}")
    if n < k:
        return None
    return (comb(n, k) - comb(n - n_correct, k)) / comb(n, k)
