"""Paired comparisons of models on the same problems: two models, or several with a reference or with the best.

The choice of problems causes most of an evaluation's error, and both models share it. The mean difference by problem
therefore has a smaller error than either solve rate.

The p-value comes from a sign-flip permutation test: the share of sign choices whose sum is at least as far from zero as
the observed sum. The test counts all choices, grouped by sum; with too many distinct sums, it draws 10,000 at random.
With one sample per problem, this is McNemar's exact test.

Holm's correction (1979) applies to the p-values of several comparisons. If the reference was selected as the best
model, all pairs of models count, as in a model confidence set: the worst model is removed while it differs from the
best. See Hansen, Lunde and Nason (2011, Econometrica 79, 453-497). Bonferroni's correction for all pairs of the
remaining models replaces their bootstrap.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from math import comb, lcm, nan
from statistics import fmean

from curate.errors import CurateError
from train.evaluation.statistics.intervals import compute_difference_interval, compute_standard_error
from train.evaluation.statistics.outcomes import ProblemOutcomes, Summary, count_passes, summarize

_DETECTABLE = 2.8  # detectable difference in standard errors: 1.96 for the 5% level, plus 0.84 for 80% power
_LEVEL = 0.05  # significance level
_N_RESAMPLES = 10_000
_ALWAYS_EXACT = 20  # maximum number of differences for which p is always exact
_MAX_STEPS = 4_000_000  # maximum number of steps of the exact count, which take about a second


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """The difference between the solve rates of two models.

    n_problems          problems with verdicts for both models
    n_unknown           problems excluded for lack of a verdict
    difference          mean over problems of the second model's solve rate minus the first model's
    standard_error      standard error of the difference; nan for one problem
    low, high           bounds of the 95% confidence interval of the difference
    p                   two-sided p-value of the sign-flip permutation test
    minimum_detectable  difference that this test finds significant with 80% power; nan if all differences are equal
    differences         nonzero differences by problem
    """

    n_problems: int
    n_unknown: int
    difference: float
    standard_error: float
    low: float
    high: float
    p: float
    minimum_detectable: float
    differences: Mapping[str, float] = field(repr=False)


def compare(first: Sequence[ProblemOutcomes], second: Sequence[ProblemOutcomes], *, seed: int = 0) -> ModelComparison:
    """Compare two models on the same problems with the same tests.

    seed: seed of the permutation test, if it samples signs

    Raises CurateError if problems or tests differ, or if no problem has a verdict for both.
    """
    pairs = _pair_outcomes(first, second)
    known = [(a, b) for a, b in pairs if a.n and b.n]
    if not known:
        raise CurateError("No problem has a verdict in both evaluations. Judge the samples of both first.")
    exact = {a.id: Fraction(b.n_correct, b.n) - Fraction(a.n_correct, a.n) for a, b in known}
    values = [float(difference) for difference in exact.values()]
    error = compute_standard_error(values)
    step = 1 / max(min(a.n, b.n) for a, b in known)
    low, high = compute_difference_interval(values, step)
    return ModelComparison(
        n_problems=len(known),
        n_unknown=len(pairs) - len(known),
        difference=fmean(values),
        standard_error=error,
        low=low,
        high=high,
        p=compute_sign_flip_p(list(exact.values()), seed=seed),
        minimum_detectable=_DETECTABLE * error if error else nan,
        differences={id: float(difference) for id, difference in exact.items() if difference},
    )


def _pair_outcomes(
    first: Sequence[ProblemOutcomes], second: Sequence[ProblemOutcomes]
) -> list[tuple[ProblemOutcomes, ProblemOutcomes]]:
    by_id = [{problem.id: problem for problem in outcomes} for outcomes in (first, second)]
    for outcomes, problems in zip((first, second), by_id, strict=True):
        if len(problems) < len(outcomes):
            repeated = Counter(problem.id for problem in outcomes).most_common(1)[0][0]
            raise CurateError(
                f"An evaluation has several problems with the id {repeated}. Evaluate on a set without duplicates."
            )
    only_first, only_second = by_id[0].keys() - by_id[1].keys(), by_id[1].keys() - by_id[0].keys()
    if only_first or only_second:
        example = min(only_first or only_second)
        raise CurateError(
            f"The evaluations have different problems: {len(only_first)} are only in the first and {len(only_second)} "
            f"only in the second, such as {example}. Compare evaluations of the same suite and window."
        )
    pairs = [(problem, by_id[1][problem.id]) for problem in first]
    other = [a.id for a, b in pairs if a.tests_digest and b.tests_digest and a.tests_digest != b.tests_digest]
    if other:
        raise CurateError(
            f"The evaluations have judged {len(other)} problems with different tests, such as {other[0]}. "
            "Judge one of them again with the tests of the other."
        )
    return pairs


def compute_sign_flip_p(differences: Sequence[Fraction], *, seed: int = 0) -> float:
    """Return the two-sided p-value of the null hypothesis that both signs of each difference are equally likely.

    seed: seed of random signs, used only for more than 20 nonzero differences with many distinct sums
    """
    unit = lcm(*(difference.denominator for difference in differences))
    sizes = [abs(int(difference * unit)) for difference in differences if difference]
    observed = abs(int(sum(differences, Fraction(0)) * unit))
    if len(sizes) <= _ALWAYS_EXACT or len(sizes) * (sum(sizes) + 1) <= _MAX_STEPS:
        return _compute_exact_p(sizes, observed)
    return _estimate_p(sizes, observed, random.Random(seed))


def _compute_exact_p(sizes: Sequence[int], observed: int) -> float:
    n_choices_by_sum = {0: 1}
    for size in sizes:
        longer: dict[int, int] = {}
        for total, n in n_choices_by_sum.items():
            longer[total + size] = longer.get(total + size, 0) + n
            longer[total - size] = longer.get(total - size, 0) + n
        n_choices_by_sum = longer
    return sum(n for total, n in n_choices_by_sum.items() if abs(total) >= observed) / (1 << len(sizes))


def _estimate_p(sizes: Sequence[int], observed: int, rng: random.Random) -> float:
    """Estimate p from random signs. The observed signs count as one choice, so p is never zero."""
    total = sum(sizes)
    n_as_far = 0
    for _ in range(_N_RESAMPLES):
        signs = rng.getrandbits(len(sizes))
        negative = sum(size for index, size in enumerate(sizes) if signs >> index & 1)
        n_as_far += abs(total - 2 * negative) >= observed
    return (n_as_far + 1) / (_N_RESAMPLES + 1)


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """The comparison of a model with the reference, and its p-value corrected for multiple comparisons."""

    comparison: ModelComparison
    p_corrected: float

    @property
    def differs(self) -> bool:
        return self.p_corrected < _LEVEL


def find_best_model(models: Mapping[str, Sequence[ProblemOutcomes]]) -> str:
    """Return the name of the first model with the highest pass@1. Raises ValueError without models."""
    return max(models, key=lambda name: _compute_pass_at_1(models[name]))


def compare_with_reference(
    reference: str, models: Mapping[str, Sequence[ProblemOutcomes]], *, is_selected: bool = False, seed: int = 0
) -> dict[str, ComparedModel]:
    """Compare all other models with the reference; a positive difference means a better model.

    reference    name of one of the models
    is_selected  whether the reference was selected as the best

    Raises CurateError if the models were not evaluated on the same problems with the same tests.
    """
    comparisons = {
        name: compare(models[reference], outcomes, seed=seed) for name, outcomes in models.items() if name != reference
    }
    corrected = correct_p_values(
        {name: comparison.p for name, comparison in comparisons.items()}, all_pairs=is_selected
    )
    return {name: ComparedModel(comparison, corrected[name]) for name, comparison in comparisons.items()}


def _compute_pass_at_1(outcomes: Sequence[ProblemOutcomes]) -> float:
    """Return pass@1; -1 if no problem has a verdict."""
    shares = [n_correct / n for n, n_correct in count_passes(outcomes)]
    return fmean(shares) if shares else -1.0


def correct_p_values(p_values: Mapping[str, float], *, all_pairs: bool = False) -> dict[str, float]:
    """Correct the p-values of comparisons with one reference; return them by name, in the same order.

    all_pairs: whether to correct for all pairs of models, because the reference was selected; False: Holm's method
    """
    corrected: dict[str, float] = {}
    largest = 0.0
    for index, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        n_left = len(p_values) - index
        n_comparisons = comb(n_left + 1, 2) if all_pairs else n_left
        largest = max(largest, min(1.0, n_comparisons * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}


def select_published_since(outcomes: Iterable[ProblemOutcomes], day: date) -> tuple[ProblemOutcomes, ...]:
    """Return the problems published on this day or later, without undated ones."""
    return tuple(problem for problem in outcomes if problem.metadata.date is not None and problem.metadata.date >= day)


def compute_contamination_curve(outcomes: Iterable[ProblemOutcomes]) -> dict[str, Summary]:
    """Summarize, for each month with a published problem, the problems of this month and later.

    The keys are months such as "2024-08", in order. Undated problems are excluded.

    A curve that falls after the model's release is a sign of contamination, unless recent problems are harder.
    LiveCodeBench's leaderboard shows this curve by a slider.
    """
    dated = sorted(
        ((problem.metadata.date, problem) for problem in outcomes if problem.metadata.date is not None),
        key=lambda pair: pair[0],
    )
    first_days = {f"{day:%Y-%m}": day.replace(day=1) for day, _ in dated}
    problems = [problem for _, problem in dated]
    return {month: summarize(select_published_since(problems, day)) for month, day in first_days.items()}
