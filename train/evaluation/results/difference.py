"""What `curate compare` shows: the differences of models from a reference, and the problems that changed sides."""

from collections.abc import Mapping, Sequence
from math import isnan

from train.evaluation.results.breakdown import format_share
from train.evaluation.statistics.outcomes import ProblemOutcomes
from train.evaluation.statistics.ranking import ComparedModel
from train.evaluation.statistics.summary import summarize

_NONE = "-"


def difference_table(
    reference: str, models: Mapping[str, Sequence[ProblemOutcomes]], contenders: Mapping[str, ComparedModel]
) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the cells of each row: the reference, then the others in their order.

    With more than one other model, a column has the p-values after Holm's correction. If all models have one sample
    of each problem, two columns have the problems that only one of two models solved, which McNemar's test counts.
    """
    names = ["", "problems", "pass@1", "difference", "95%", "p", "visible"]
    several = len(contenders) > 1
    discordant = bool(contenders) and all(one.comparison.mcnemar is not None for one in contenders.values())
    names += ["p (Holm)"] if several else []
    names += ["only it", f"only {reference}", "p (McNemar)"] if discordant else []
    rows = [_filled([reference, *_solved(models[reference])], len(names))]
    for name, contender in contenders.items():
        found = contender.comparison
        row = [
            name,
            str(found.n_problems),
            _solved(models[name])[1],
            signed(found.difference),
            f"{signed(found.low)}..{signed(found.high)}",
            format_p_value(found.p),
            format_share(found.minimum_detectable),
        ]
        row += [format_p_value(contender.p_corrected)] if several else []
        if discordant and found.mcnemar is not None:
            row += [str(found.mcnemar.only_second), str(found.mcnemar.only_first), format_p_value(found.mcnemar.p)]
        rows.append(row)
    return names, rows


def _solved(outcomes: Sequence[ProblemOutcomes]) -> list[str]:
    summary = summarize(outcomes)
    return [str(summary.n_problems), format_share(summary.pass_at_1)]


def _filled(cells: list[str], n: int) -> list[str]:
    return cells + [_NONE] * (n - len(cells))


def changed_problems(first: Sequence[ProblemOutcomes], second: Sequence[ProblemOutcomes]) -> list[tuple[str, str, str]]:
    """Return the problems that the second model solves more or less often than the first, the largest change first.

    Each comes with the numbers of right samples of both, such as ("abc365_d", "0/8", "7/8").
    """
    by_id = {problem.id: problem for problem in first}
    pairs = [(by_id[problem.id], problem) for problem in second if problem.id in by_id]
    moved = [(a, b, b.n_correct / b.n - a.n_correct / a.n) for a, b in pairs if a.n and b.n]
    moved = sorted((item for item in moved if item[2]), key=lambda item: (-abs(item[2]), item[2] > 0, item[0].id))
    return [(a.id, f"{a.n_correct}/{a.n}", f"{b.n_correct}/{b.n}") for a, b, _ in moved]


def signed(value: float) -> str:
    """Return a difference of shares with its sign."""
    return _NONE if isnan(value) else f"{value:+.3f}"


def format_p_value(p: float) -> str:
    """Return a p-value with two digits that count, and not less than its precision deserves."""
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"
