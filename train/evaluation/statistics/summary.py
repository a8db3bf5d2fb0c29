"""All numbers of a set of problems: one row of a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, nan
from statistics import fmean

from train.evaluation.statistics.confidence import solve_rate_interval, standard_error
from train.evaluation.statistics.outcomes import ProblemOutcomes, pass_counts
from train.evaluation.statistics.pass_at_j import always_solved_share, pass_at_each


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of a set of problems. Without any verdict they are nan. Samples without a verdict are left out.

    n_problems           problems that have a verdict
    n_unknown            problems that have none
    n_samples            samples that have a verdict
    n_no_verdict         samples that have none
    pass_at_1            mean over problems of the share of right samples
    standard_error       of pass_at_1, with problems as clusters; nan for one problem
    low, high            bounds of its 95% confidence interval
    pass_at              for each j up to the smallest number of samples of a problem, pass@j
    always_solved_share  share of the problems all of whose samples are right
    truncated_share      share of the samples that reached the limit of tokens
    tokens_p50           median length of a sample
    tokens_p95           95% of the samples are at most so long
    """

    n_problems: int
    n_unknown: int
    n_samples: int
    n_no_verdict: int
    pass_at_1: float
    standard_error: float
    low: float
    high: float
    pass_at: Mapping[int, float]
    always_solved_share: float
    truncated_share: float
    tokens_p50: float
    tokens_p95: float


def summarize(outcomes: Iterable[ProblemOutcomes]) -> Summary:
    """Return the numbers of these problems."""
    problems = tuple(outcomes)
    known = pass_counts(problems)
    shares = [n_correct / n for n, n_correct in known]
    low, high = solve_rate_interval(known)
    scored = [
        (tokens, truncated)
        for problem in problems
        for bit, tokens, truncated in zip(problem.correct, problem.tokens, problem.truncated, strict=True)
        if bit is not None
    ]
    lengths = sorted(tokens for tokens, _ in scored)
    return Summary(
        n_problems=len(known),
        n_unknown=len(problems) - len(known),
        n_samples=len(scored),
        n_no_verdict=sum(len(problem.correct) for problem in problems) - len(scored),
        pass_at_1=fmean(shares) if shares else nan,
        standard_error=standard_error(shares),
        low=low,
        high=high,
        pass_at=pass_at_each(known),
        always_solved_share=always_solved_share(known),
        truncated_share=fmean(truncated for _, truncated in scored) if scored else nan,
        tokens_p50=_quantile(lengths, 0.5),
        tokens_p95=_quantile(lengths, 0.95),
    )


def _quantile(ascending: Sequence[int], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return ascending[ceil(share * len(ascending)) - 1] if ascending else nan
