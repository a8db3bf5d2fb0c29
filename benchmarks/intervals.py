"""Coverage of confidence intervals, and the rate of false significant differences:  python -m benchmarks.intervals

Solve rates of synthetic problems have Beta distributions. Their unevenness, the correlation of two samples of one
problem, goes from 0 (equal rates) to 1 (always or never solved). Each setting has a mean rate, an unevenness
and a difference. The benchmark compares the 95% intervals of pass@1, and of the difference of two models, with the true
means. The usual interval, for comparison, is the mean +- Student's t times the standard error.

    single     mean rates from 0.02 to 0.5; those above are mirror images
    paired     mean rates from 0.02 to 0.98, differences of 0, 0.05 and 0.3. The second model has unrelated rates, or
               those of the first with a part of the gap to 1 (or 0) closed
    selection  how often one of the best models is significantly worse than the one ranked first
"""

import random
from collections.abc import Iterator, Sequence
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import describe_machine, save_results
from train.evaluation.statistics import intervals
from train.evaluation.statistics.comparison import compare_with_reference, find_best_model
from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes

REPEATS = 4000  # evaluations of each setting
PROBLEMS = (10, 20, 30, 50, 100)
SAMPLES = (1, 8)
UNEVENNESS = (0.0, 0.1, 0.3, 0.6, 0.9, 1.0)
MEANS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
PAIRED_UNEVENNESS = (0.0, 0.3, 0.6, 1.0)
PAIRED_MEANS = (0.02, 0.1, 0.5, 0.9, 0.98)
DIFFERENCES = (0.0, 0.05, 0.3)
SKILLS = {
    "2 equal": (0.5,) * 2,
    "5 equal": (0.5,) * 5,
    "10 equal": (0.5,) * 10,
    "3 equal, 2 worse": (0.5,) * 3 + (0.3,) * 2,
}
T = {10: 2.262, 20: 2.093, 30: 2.045, 50: 2.010, 100: 1.984}  # quantiles of 97.5% with N - 1 degrees of freedom
_Z = 1.959963984540054

Values = NDArray[np.float64]  # a row for each evaluation, a column for each problem
Bounds = tuple[Values, Values]


def sample_solve_rates(rng: np.random.Generator, mean: float, unevenness: float, shape: tuple[int, int]) -> Values:
    if unevenness in (0, 1):
        return np.full(shape, mean) if unevenness == 0 else (rng.random(shape) < mean).astype(float)
    weight = 1 / unevenness - 1
    return rng.beta(mean * weight, (1 - mean) * weight, shape)


def bound_solve_rate(shares: Values, samples: int) -> Bounds:
    """Vectorize intervals.compute_solve_rate_interval over rows."""
    problems = shares.shape[1]
    mean, variance = shares.mean(1), shares.var(1, ddof=1) + intervals.UNSEEN_VARIANCE / problems
    n = np.clip(problems * mean * (1 - mean) / variance, problems - 1, problems * samples)
    centre = (n * mean + _Z**2 / 2) / (n + _Z**2)
    half = _Z * np.sqrt(centre * (1 - centre) / (n + _Z**2))
    return np.maximum(0, centre - half), np.minimum(1, centre + half)


def bound_difference(differences: Values, samples: int) -> Bounds:
    """Vectorize intervals.compute_difference_interval over rows."""
    problems = differences.shape[1] + 2
    squares, unseen = (differences**2).sum(1), intervals.UNSEEN_DIFFERENCE
    unit = np.maximum(1 / samples, (squares + unseen) / (np.abs(differences).sum(1) + unseen))
    centre = differences.sum(1) / problems
    variance = (squares + 2 * unit**2 - problems * centre**2) / (problems - 1)
    half = _Z * np.sqrt(variance / problems)
    return np.maximum(-1, centre - half), np.minimum(1, centre + half)


def bound_mean(values: Values) -> Bounds:
    problems = values.shape[1]
    half = T[problems] * values.std(1, ddof=1) / np.sqrt(problems)
    return values.mean(1) - half, values.mean(1) + half


def check_vectorized(shares: Values, differences: Values, samples: int) -> None:
    """Raise AssertionError if a vectorized interval differs from that of `intervals`, in some rows."""
    solve_rates, bounds = bound_solve_rate(shares, samples), bound_difference(differences, samples)
    for row in range(5):
        counts = [(samples, round(share * samples)) for share in shares[row]]
        assert np.allclose([bound[row] for bound in solve_rates], intervals.compute_solve_rate_interval(counts))
        interval = intervals.compute_difference_interval(differences[row].tolist(), 1 / samples)
        assert np.allclose([bound[row] for bound in bounds], interval)


def sample_single(rng: np.random.Generator, problems: int, samples: int) -> Iterator[tuple[float, Values]]:
    """Yield, for each setting, the true mean and the shares of correct samples by problem."""
    for mean, unevenness in product(MEANS, UNEVENNESS if samples > 1 else (0.0,)):
        rates = sample_solve_rates(rng, mean, unevenness, (REPEATS, problems))
        yield mean, rng.binomial(samples, rates) / samples


def sample_paired(rng: np.random.Generator, problems: int, samples: int) -> Iterator[tuple[float, Values]]:
    """Yield the true difference and the differences of shares, for each setting."""
    for mean, size, unevenness, is_related in product(PAIRED_MEANS, DIFFERENCES, PAIRED_UNEVENNESS, (True, False)):
        other = mean + size if mean + size < 1 else mean - size
        first = sample_solve_rates(rng, mean, unevenness, (REPEATS, problems))
        if not is_related:
            second = sample_solve_rates(rng, other, unevenness, (REPEATS, problems))
        elif other >= mean:
            second = first + (other - mean) / (1 - mean) * (1 - first)
        else:
            second = first * other / mean
        yield other - mean, (rng.binomial(samples, second) - rng.binomial(samples, first)) / samples


def measure_coverage(bounds: Bounds, truth: float) -> float:
    low, high = bounds
    return float(((low - 1e-9 <= truth) & (truth <= high + 1e-9)).mean())


def sample_outcomes(rng: random.Random, rates: Sequence[float], samples: int) -> list[ProblemOutcomes]:
    metadata, lengths, truncated = ProblemMetadata(), (0,) * samples, (False,) * samples
    return [
        ProblemOutcomes(str(number), metadata, tuple(rng.random() < rate for _ in range(samples)), lengths, truncated)
        for number, rate in enumerate(rates)
    ]


def measure_false_share(skills: Sequence[float], problems: int, samples: int) -> float:
    """Return the share of comparisons that rank an equally good model significantly below the first one."""
    rng, n_false = random.Random(0), 0
    for _ in range(REPEATS // 4):
        hardness = [rng.betavariate(1 / 3, 1 / 3) - 0.5 for _ in range(problems)]  # an unevenness of 0.6
        models = {
            str(number): sample_outcomes(rng, [min(1, max(0, skill + offset)) for offset in hardness], samples)
            for number, skill in enumerate(skills)
        }
        found = compare_with_reference(find_best_model(models), models, is_selected=True)
        as_good = [str(number) for number, skill in enumerate(skills) if skill == max(skills)]
        n_false += any(found[name].differs for name in as_good if name in found)
    return n_false / (REPEATS // 4)


def main() -> None:
    rng = np.random.default_rng(0)
    report: dict[str, Any] = {"single": {}, "paired": {}, "selection": {}}
    kinds = (("single", sample_single, bound_solve_rate), ("paired", sample_paired, bound_difference))
    for problems, samples in product(PROBLEMS, SAMPLES):
        last = []
        for kind, draw, bound in kinds:
            ours, usual = [], []
            for truth, values in draw(rng, problems, samples):
                ours.append(measure_coverage(bound(values, samples), truth))
                usual.append(measure_coverage(bound_mean(values), truth))
            last.append(values)
            found = {"settings": len(ours), "mean": fmean(ours), "min": min(ours), "usual": {"min": min(usual)}}
            report[kind].setdefault(str(problems), {})[str(samples)] = found
            print(kind, problems, samples, found, flush=True)
        check_vectorized(last[0], last[1], samples)
    for (name, skills), samples in product(SKILLS.items(), SAMPLES):
        share = measure_false_share(skills, 100 if samples == 1 else 30, samples)
        report["selection"].setdefault(name, {})[str(samples)] = {"false": share}
        print(name, samples, share, flush=True)
    save_results("intervals", {"machine": describe_machine(), "repeats": REPEATS, **report})


if __name__ == "__main__":
    main()
