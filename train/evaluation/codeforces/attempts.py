"""In which attempt a model solves a problem, over all orders of its samples.

CodeElo takes the samples of a problem as successive attempts in the order in which they were drawn, and each wrong
attempt before the first right one costs points. The samples are independent, so their order is chance alone, but it can
move a rating by hundreds of points. So ratings here are averages over all orders.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import comb

from train.evaluation.codeforces.contests import ContestProblem

Score = tuple[float, float]  # points and penalty
_POINTS_PER_WRONG = 50  # lost for each wrong attempt, if problems have points
_PENALTY_PER_WRONG = 10  # minutes for each wrong attempt, if solved problems are counted


def count_wrong_attempts(bits: Iterable[bool | None]) -> int | None:
    """Return the number of wrong attempts before the first right one, in the order of the samples.

    It is None if no sample is right. Samples without a verdict are not attempts.
    """
    known = [bit for bit in bits if bit is not None]
    return known.index(True) if True in known else None


def first_right_probabilities(n: int, n_correct: int) -> dict[int | None, float]:
    """Return the probability of each number of wrong attempts before the first right one, over all orders of n samples.

    The key None stands for the case that no sample is right. Raises ValueError for impossible numbers.
    """
    if not 0 <= n_correct <= n:
        raise ValueError(f"{n_correct} of {n} samples cannot be right")
    if not n_correct:
        return {None: 1.0}
    n_wrong = n - n_correct
    # after j wrong attempts and a right one, n - j - 1 samples remain, among them n_wrong - j wrong ones
    return {j: comb(n - j - 1, n_wrong - j) / comb(n, n_wrong) for j in range(n_wrong + 1)}


def score_after(problem: ContestProblem, n_wrong: int | None) -> Score:
    """Return what a problem contributes to the score if it is solved after so many wrong attempts; None: never."""
    if n_wrong is None:
        return (0.0, 0.0)
    if problem.points is None:
        return (1.0, float(_PENALTY_PER_WRONG * n_wrong))
    return (max(0.0, problem.points - _POINTS_PER_WRONG * n_wrong), 0.0)


def score_probabilities(
    problems: Sequence[ContestProblem], samples: Mapping[str, tuple[int, int]]
) -> dict[Score, float]:
    """Return the probability of each score in a contest, over all orders of the samples.

    samples: for the index of a problem, the number of samples with a verdict and of right ones. A problem that is
    missing is not solved.
    """
    scores = {(0.0, 0.0): 1.0}
    for problem in problems:
        longer: dict[Score, float] = {}
        for n_wrong, chance in first_right_probabilities(*samples.get(problem.index, (0, 0))).items():
            points, penalty = score_after(problem, n_wrong)
            for (points_before, penalty_before), chance_before in scores.items():
                score = (points_before + points, penalty_before + penalty)
                longer[score] = longer.get(score, 0.0) + chance * chance_before
        scores = longer
    return scores


def score_in_order(problems: Sequence[ContestProblem], bits: Mapping[str, Sequence[bool | None]]) -> Score:
    """Return the score in a contest if the samples are attempts in the order in which they were drawn."""
    gains = [score_after(problem, count_wrong_attempts(bits.get(problem.index, ()))) for problem in problems]
    return sum(points for points, _ in gains), sum(penalty for _, penalty in gains)
