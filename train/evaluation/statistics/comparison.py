"""Models on the same problems: the paired difference of two, and several compared with the best or with a reference.

Most of the error of an evaluation comes from the choice of problems, which both models share. So their difference is
computed problem by problem, and has a smaller error than either mean.

The p-value is that of a permutation test: if two models are equally good, each difference might as well have the
opposite sign. p is the share of all choices of signs whose sum is at least as far from zero as the observed one.
Differences are counted as integer multiples of a fraction, so ties are exact. All choices are counted, grouped by their
few distinct sums. If there are too many sums, as with many different numbers of samples, 10,000 random choices replace
them. With one sample of each problem, this is McNemar's exact test.

Among many comparisons, some look significant by chance. With Holm's correction (1979), the probability that any
comparison of equal models has a p-value below 0.05 is at most 5%. If the reference was selected as the best model, any
pair could have been compared, so all pairs count. The worst model is removed while it differs from the best, as in the
model confidence set of Hansen, Lunde and Nason (2011, Econometrica 79, 453-497), with Bonferroni's correction for all
pairs of the remaining models in place of their bootstrap.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from math import comb, lcm, nan
from statistics import fmean

from curate.errors import CurateError
from train.evaluation.statistics.intervals import difference_interval, standard_error
from train.evaluation.statistics.outcomes import ProblemOutcomes, Summary, pass_counts, summarize

_VISIBLE = 2.8  # standard errors: 1.96 for the 5% level, and 0.84 for 80% power
_LEVEL = 0.05  # significance level
_N_RESAMPLES = 10_000
_ALWAYS_EXACT = 20  # number of differences
_MAX_STEPS = 4_000_000  # about a second of counting


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """The difference between the solve rates of two models.

    n_problems          problems for which both models have a verdict
    n_unknown           problems for which one of them has none; excluded
    difference          mean over problems of the second model's share of correct samples minus the first one's
    standard_error      of the difference; nan for one problem
    low, high           bounds of its 95% confidence interval
    p                   two-sided p-value of the sign-flip permutation test
    minimum_detectable  difference that such an evaluation would find significant with 80% power; nan if all differences
                        are equal
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

    seed: of the permutation test, if it samples signs

    Raises CurateError if problems or tests differ, or if no problem has a verdict for both.
    """
    pairs = _pair_outcomes(first, second)
    known = [(a, b) for a, b in pairs if a.n and b.n]
    if not known:
        raise CurateError("There is no problem for which both evaluations have a verdict.")
    exact = {a.id: Fraction(b.n_correct, b.n) - Fraction(a.n_correct, a.n) for a, b in known}
    values = [float(difference) for difference in exact.values()]
    error = standard_error(values)
    step = 1 / max(min(a.n, b.n) for a, b in known)
    low, high = difference_interval(values, step)
    return ModelComparison(
        n_problems=len(known),
        n_unknown=len(pairs) - len(known),
        difference=fmean(values),
        standard_error=error,
        low=low,
        high=high,
        p=sign_flip_p(list(exact.values()), seed=seed),
        minimum_detectable=_VISIBLE * error if error else nan,
        differences={id: float(difference) for id, difference in exact.items() if difference},
    )


def _pair_outcomes(
    first: Sequence[ProblemOutcomes], second: Sequence[ProblemOutcomes]
) -> list[tuple[ProblemOutcomes, ProblemOutcomes]]:
    """Return the outcomes of both models for each problem, in the order of the first."""
    by_id = [{problem.id: problem for problem in outcomes} for outcomes in (first, second)]
    for outcomes, problems in zip((first, second), by_id, strict=True):
        if len(problems) < len(outcomes):
            raise CurateError("An evaluation has several problems with the same id. Evaluate on a set without them.")
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


def sign_flip_p(differences: Sequence[Fraction], *, seed: int = 0) -> float:
    """Return the two-sided p-value of the hypothesis that the sign of each difference is arbitrary.

    seed: for random signs, if needed; the same seed gives the same result

    Exact for up to 20 nonzero differences, and for more if they have few distinct sums.
    """
    unit = lcm(*(difference.denominator for difference in differences))
    sizes = [abs(int(difference * unit)) for difference in differences if difference]
    observed = abs(int(sum(differences, Fraction(0)) * unit))
    if len(sizes) <= _ALWAYS_EXACT or len(sizes) * (sum(sizes) + 1) <= _MAX_STEPS:
        return _compute_exact_p(sizes, observed)
    return _estimate_p(sizes, observed, random.Random(seed))


def _compute_exact_p(sizes: Sequence[int], observed: int) -> float:
    ways = {0: 1}  # number of sign choices by sum
    for size in sizes:
        longer: dict[int, int] = {}
        for total, n in ways.items():
            longer[total + size] = longer.get(total + size, 0) + n
            longer[total - size] = longer.get(total - size, 0) + n
        ways = longer
    return sum(n for total, n in ways.items() if abs(total) >= observed) / (1 << len(sizes))


def _estimate_p(sizes: Sequence[int], observed: int, rng: random.Random) -> float:
    """Estimate p by sampling; never zero, since the observed signs count as one choice."""
    total = sum(sizes)
    n_as_far = 0
    for _ in range(_N_RESAMPLES):
        signs = rng.getrandbits(len(sizes))
        negative = sum(size for place, size in enumerate(sizes) if signs >> place & 1)
        n_as_far += abs(total - 2 * negative) >= observed
    return (n_as_far + 1) / (_N_RESAMPLES + 1)


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A model compared with the reference, and the p-value after correction for all comparisons."""

    comparison: ModelComparison
    p_corrected: float

    @property
    def differs(self) -> bool:
        """Return whether the difference from the reference is significant."""
        return self.p_corrected < _LEVEL


def find_best_model(models: Mapping[str, Sequence[ProblemOutcomes]]) -> str:
    """Return the name of the model with the highest pass@1, the first of those that share it.

    Raises ValueError without any model.
    """
    return max(models, key=lambda name: _pass_at_1(models[name]))


def compare_with_reference(
    reference: str, models: Mapping[str, Sequence[ProblemOutcomes]], *, is_selected: bool = False, seed: int = 0
) -> dict[str, ComparedModel]:
    """Compare the other models with the reference; differences are positive if they are better.

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


def _pass_at_1(outcomes: Sequence[ProblemOutcomes]) -> float:
    """Return pass@1; -1 if no problem has a verdict."""
    shares = [n_correct / n for n, n_correct in pass_counts(outcomes)]
    return fmean(shares) if shares else -1.0


def correct_p_values(p_values: Mapping[str, float], *, all_pairs: bool = False) -> dict[str, float]:
    """Correct the p-values of comparisons with one reference, keeping names and order.

    all_pairs: whether the reference was selected, so all pairs of models count; otherwise Holm's method
    """
    corrected: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        n_left = len(p_values) - place
        n_comparisons = comb(n_left + 1, 2) if all_pairs else n_left
        largest = max(largest, min(1.0, n_comparisons * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}


def select_published_since(outcomes: Iterable[ProblemOutcomes], day: date) -> tuple[ProblemOutcomes, ...]:
    """Return the problems published on this day or later; those without a date are excluded."""
    return tuple(problem for problem in outcomes if problem.metadata.date is not None and problem.metadata.date >= day)


def compute_contamination_curve(outcomes: Iterable[ProblemOutcomes]) -> dict[str, Summary]:
    """Summarize, for each month with a published problem, the problems of this month and later.

    The keys are months such as "2024-08", in order. Problems without a date are excluded.

    A model may have trained on problems published before its release. So a curve that falls at the release is a sign of
    contamination, as with the slider of LiveCodeBench's leaderboard. Recent problems may also be harder; the curve of
    an older model shows whether they are.
    """
    dated = sorted(
        ((problem.metadata.date, problem) for problem in outcomes if problem.metadata.date is not None),
        key=lambda pair: pair[0],
    )
    first_days = {f"{day:%Y-%m}": day.replace(day=1) for day, _ in dated}
    problems = [problem for _, problem in dated]
    return {month: summarize(select_published_since(problems, day)) for month, day in first_days.items()}
