"""Two models on the same problems.

Most of the error of an evaluation comes from the choice of problems, which is the same for both models. So their
difference is computed problem by problem, and is known better than either of the two means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import nan
from statistics import fmean

from curate.errors import CurateError
from train.evaluation.statistics.confidence import interval_of_mean, standard_error
from train.evaluation.statistics.mcnemar import McNemar, mcnemar
from train.evaluation.statistics.outcomes import ProblemOutcomes
from train.evaluation.statistics.sign_flip import sign_flip_p

_VISIBLE = 2.8  # standard errors: 1.96 for the level of 5%, and 0.84 for a power of 80%


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """How much more the second of two models solves than the first.

    n_problems          problems for which both models have a verdict
    n_unknown           problems for which one of them has none; they are left out
    difference          mean over problems of the second model's share of right samples minus the first one's
    standard_error      of the difference; nan for one problem
    low, high           bounds of its 95% confidence interval; it has no width if all differences are equal
    p                   two-sided p-value of the sign-flip permutation test
    minimum_detectable  the difference that such an evaluation would find significant in 80% of the cases; nan if it
                        cannot be estimated, because all differences are equal
    mcnemar             McNemar's exact test; None unless both models have one sample of each problem
    differences         for each problem that both do not solve equally often, the difference
    """

    n_problems: int
    n_unknown: int
    difference: float
    standard_error: float
    low: float
    high: float
    p: float
    minimum_detectable: float
    mcnemar: McNemar | None
    differences: Mapping[str, float] = field(repr=False)


def compare(first: Sequence[ProblemOutcomes], second: Sequence[ProblemOutcomes], *, seed: int = 0) -> ModelComparison:
    """Compare two models on the same problems with the same tests.

    seed: of the permutation test, where it has to draw signs.
    Raises CurateError if the problems or their tests are not the same, or if there is no problem that both have a
    verdict for.
    """
    pairs = _pairs(first, second)
    known = [(a, b) for a, b in pairs if a.n and b.n]
    if not known:
        raise CurateError("There is no problem for which both evaluations have a verdict.")
    exact = {a.id: Fraction(b.n_correct, b.n) - Fraction(a.n_correct, a.n) for a, b in known}
    values = [float(difference) for difference in exact.values()]
    error = standard_error(values)
    low, high = interval_of_mean(values)
    return ModelComparison(
        n_problems=len(known),
        n_unknown=len(pairs) - len(known),
        difference=fmean(values),
        standard_error=error,
        low=low,
        high=high,
        p=sign_flip_p(list(exact.values()), seed=seed),
        minimum_detectable=_VISIBLE * error if error else nan,
        mcnemar=_mcnemar(known),
        differences={id: float(difference) for id, difference in exact.items() if difference},
    )


def _pairs(
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


def _mcnemar(pairs: Sequence[tuple[ProblemOutcomes, ProblemOutcomes]]) -> McNemar | None:
    if any(a.n != 1 or b.n != 1 for a, b in pairs):
        return None
    only_first = sum(a.n_correct > b.n_correct for a, b in pairs)
    only_second = sum(a.n_correct < b.n_correct for a, b in pairs)
    return mcnemar(only_first, only_second)
