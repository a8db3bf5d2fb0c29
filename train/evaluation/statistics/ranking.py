"""Several models, each compared with one of them: with the best, or with a reference such as the first checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from train.evaluation.statistics.comparison import ModelComparison, compare
from train.evaluation.statistics.holm import holm
from train.evaluation.statistics.outcomes import ProblemOutcomes, pass_counts

_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A model that is compared with the reference, and the p-value after Holm's correction for all comparisons."""

    comparison: ModelComparison
    p_corrected: float

    @property
    def differs(self) -> bool:
        """Return whether the difference from the reference is significant."""
        return self.p_corrected < _LEVEL


def best_model(models: Mapping[str, Sequence[ProblemOutcomes]]) -> str:
    """Return the name of the model with the highest pass@1, the first of those that share it.

    Raises ValueError without any model.
    """
    return max(models, key=lambda name: _pass_at_1(models[name]))


def compare_with_reference(
    reference: str, models: Mapping[str, Sequence[ProblemOutcomes]], *, seed: int = 0
) -> dict[str, ComparedModel]:
    """Compare each other model with the reference; differences are positive where it is better than the reference.

    reference: the name of one of the models.
    Raises CurateError if the models were not evaluated on the same problems with the same tests.
    """
    comparisons = {
        name: compare(models[reference], outcomes, seed=seed) for name, outcomes in models.items() if name != reference
    }
    corrected = holm({name: comparison.p for name, comparison in comparisons.items()})
    return {name: ComparedModel(comparison, corrected[name]) for name, comparison in comparisons.items()}


def _pass_at_1(outcomes: Sequence[ProblemOutcomes]) -> float:
    """Return pass@1, or -1 if no problem has a verdict."""
    shares = [n_correct / n for n, n_correct in pass_counts(outcomes)]
    return fmean(shares) if shares else -1.0
