"""A picture of the evaluations of runs: for each suite, pass@1 by step, and the difference from the first step.

The left panel has pass@1 with its 95% interval. Most of that interval comes from the choice of problems, which is the
same for all steps. So the right panel has the paired difference from the first step that was evaluated, in the band of
its own 95% interval. A filled point is significant after Holm's correction for all steps of the run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from train.errors import NoRunError
from train.evaluation.results.reader import Result
from train.evaluation.statistics.ranking import ComparedModel, compare_with_reference
from train.evaluation.statistics.summary import summarize
from train.run.evaluation_results import read_evaluations, step_label
from train.run.plot_style import COLOURS, STYLE, PlottedRun, save


def plot_evaluations(runs: Sequence[PlottedRun], out: Path) -> None:
    """Draw the evaluations of these runs into a file.

    Raises NoRunError if one of them has none, and CurateError if steps of a run were judged by different tests.
    """
    found = [(run.label, read_evaluations(run.folder), COLOURS[n % len(COLOURS)]) for n, run in enumerate(runs)]
    suites = list(dict.fromkeys(suite for _, of_run, _ in found for suite in of_run))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 2.7 * len(suites) + 0.4), layout="constrained")
        axes = figure.subplots(len(suites), 2, squeeze=False)
        for suite, (left, right) in zip(suites, axes, strict=True):
            for _, of_run, colour in found:
                if known := {step: result for step, result in of_run.get(suite, {}).items() if _is_known(result)}:
                    _draw_pass_at_1(left, known, colour)
                    _draw_differences(right, known, colour)
            left.set_title(f"pass@1 on {suite}, with its 95% interval")
            right.set_title("Difference from the first step, filled if significant")
            right.axhline(0, color="#444444", lw=0.8)
            for place in (left, right):
                place.set_xlabel("step")
                place.xaxis.set_major_locator(MaxNLocator(integer=True))
        if not any(place.has_data() for place in axes[:, 0]):
            raise NoRunError(f"{runs[0].folder}: no sample of its evaluations has a verdict.")
        if len(found) > 1:
            handles = [Line2D([], [], color=colour, label=label) for label, _, colour in found]
            figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 3))
        save(figure, out)


def _is_known(result: Result) -> bool:
    return any(problem.n for problem in result.outcomes)


def _draw_pass_at_1(place: Axes, results: Mapping[int, Result], colour: str) -> None:
    summaries = [summarize(result.outcomes) for result in results.values()]
    place.plot(
        list(results), [summary.pass_at_1 for summary in summaries], color=colour, lw=1.5, marker="o", ms=3,
        clip_on=False,
    )  # fmt: skip
    low, high = [summary.low for summary in summaries], [summary.high for summary in summaries]
    place.fill_between(list(results), low, high, color=colour, alpha=0.15, lw=0)


def _draw_differences(place: Axes, results: Mapping[int, Result], colour: str) -> None:
    contenders = baseline_differences(results)
    if not contenders:
        return
    at = [min(results), *contenders]
    found = [contender.comparison for contender in contenders.values()]
    place.plot(at, [0.0, *(one.difference for one in found)], color=colour, lw=1.5)
    place.fill_between(
        at, [0.0, *(one.low for one in found)], [0.0, *(one.high for one in found)], color=colour, alpha=0.15, lw=0
    )
    for step, contender in contenders.items():
        face = colour if contender.differs else "white"
        place.plot([step], [contender.comparison.difference], "o", ms=4, color=colour, mfc=face, zorder=3)


def baseline_differences(results: Mapping[int, Result]) -> dict[int, ComparedModel]:
    """Return the comparison of each later step with the first. Raises CurateError for different tests."""
    outcomes = {step_label(step): result.outcomes for step, result in results.items()}
    contenders = compare_with_reference(step_label(min(results)), outcomes)
    return {step: contenders[step_label(step)] for step in results if step_label(step) in contenders}
