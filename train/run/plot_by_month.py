"""A picture of pass@1 by the month in which problems were published, which may show that a model knows old problems.

The upper panel has each month by itself, with its 95% interval. The lower one has all problems since a month, as
LiveCodeBench's leaderboard has with its slider, in the band of the interval. A line stands for the model's release.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from train.errors import NoRunError
from train.evaluation.results.labels import labels
from train.evaluation.results.reader import Result
from train.evaluation.statistics.contamination import contamination_curve
from train.evaluation.statistics.strata import STRATUM_KEYS, UNKNOWN, strata
from train.evaluation.statistics.summary import Summary
from train.run.plot_style import COLOURS, STYLE, save

_APART = 0.12  # months between the points of two models


def plot_by_month(results: Sequence[Result], out: Path, released: date | None = None) -> None:
    """Draw pass@1 by month, and since each month, into a file. Raises NoRunError if no problem has a date."""
    names = labels(results)
    for result in results:
        if all(problem.metadata.date is None for problem in result.outcomes):
            raise NoRunError(f"{result.path}: no problem has a date. Evaluate on a suite with dates, such as lcb.")
    of_month = [_known(strata(result.outcomes, STRATUM_KEYS["month"])) for result in results]
    since = [_known(contamination_curve(result.outcomes)) for result in results]
    numbers = [_number(month) for months in of_month for month in months]
    if not numbers:
        raise NoRunError(f"{results[0].path}: no problem with a date has a verdict.")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 5.5), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True)
        for place, (name, months, curve) in enumerate(zip(names, of_month, since, strict=True)):
            colour = COLOURS[place % len(COLOURS)]
            _draw_points(upper, months, colour, (place - (len(names) - 1) / 2) * _APART)
            _draw_curve(lower, curve, colour, name)
        for panel in (upper, lower):
            if released is not None:
                panel.axvline(
                    _number(f"{released:%Y-%m}") - 0.5 + (released.day - 1) / 31, color="#444444", ls="--", lw=1
                )
            panel.set_ylim(0, 1)
        upper.set_title("pass@1 by month of publication, with its 95% interval")
        lower.set_title("pass@1 on the problems since a month")
        _name_months(lower, min(numbers), max(numbers))
        if released is not None:
            upper.set_title(f"released {released.isoformat()}", loc="right", color="#444444")
        if len(names) > 1:
            handles, texts = lower.get_legend_handles_labels()
            figure.legend(handles, texts, loc="outside upper center", ncols=min(len(names), 3))
        save(figure, out)


def _known(summaries: Mapping[str, Summary]) -> dict[str, Summary]:
    return {month: summary for month, summary in summaries.items() if month != UNKNOWN and summary.n_problems}


def _number(month: str) -> int:
    """Return the place of a month such as "2024-08" on the axis."""
    year, _, of_year = month.partition("-")
    return 12 * int(year) + int(of_year) - 1


def _draw_points(place: Axes, months: Mapping[str, Summary], colour: str, shift: float) -> None:
    at = [_number(month) + shift for month in months]
    values = [summary.pass_at_1 for summary in months.values()]
    below = [summary.pass_at_1 - summary.low for summary in months.values()]
    above = [summary.high - summary.pass_at_1 for summary in months.values()]
    place.errorbar(at, values, yerr=(below, above), color=colour, fmt="o", ms=3, lw=1, capsize=2)


def _draw_curve(place: Axes, curve: Mapping[str, Summary], colour: str, name: str) -> None:
    at = [_number(month) for month in curve]
    place.plot(
        at, [summary.pass_at_1 for summary in curve.values()], color=colour, lw=1.5, marker="o", ms=3, label=name
    )
    low, high = [summary.low for summary in curve.values()], [summary.high for summary in curve.values()]
    place.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)


def _name_months(place: Axes, first: int, last: int) -> None:
    every = max(1, -(-(last - first + 1) // 12))
    shown = range(first, last + 1, every)
    place.set_xticks(list(shown), [f"{month // 12}-{month % 12 + 1:02}" for month in shown], rotation=30)
