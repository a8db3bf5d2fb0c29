"""What all pictures of runs share: the choice of runs, the style and the colours, and the way they are saved.

MERGED Pictures of the curves of a run, or of several runs side by side.

Runs with the same label, such as the seeds of one setting, are drawn as one curve, their mean, in a band from their
lowest to their highest value. Metrics that no run has are left out.

MERGED Pictures of timelines: when each part of a run was busy, and when it was idle.

MERGED A picture of the evaluations of runs: for each suite, pass@1 by step, and the difference from the first step.

The left panel has pass@1 with its 95% interval. Most of that interval comes from the choice of problems, which is the
same for all steps. So the right panel has the paired difference from the first step that was evaluated, in the band of
its own 95% interval. A filled point is significant after Holm's correction for all steps of the run.

MERGED A picture of pass@1 by the month in which problems were published, which may show that a model knows old problems.

The upper panel has each month by itself, with its 95% interval. The lower one has all problems since a month, as
LiveCodeBench's leaderboard has with its slider, in the band of the interval. A line stands for the model's release.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from train.errors import NoRunError
from train.evaluation.results.result import Result, labels
from train.evaluation.statistics.comparison import ComparedModel, compare_with_reference, contamination_curve
from train.evaluation.statistics.outcomes import STRATUM_KEYS, UNKNOWN, Summary, strata, summarize
from train.run.metrics_log import METRICS, TIMELINE, read_json_lines, read_metrics
from train.run.pending_evaluation import read_evaluations, step_label

STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "legend.edgecolor": "none",
    "svg.hashsalt": "curate",  # the same metrics make the same file
    "svg.fonttype": "none",  # text in the picture can be searched and selected
}

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # by Okabe and Ito, for people with any colour vision


@dataclass(frozen=True, slots=True)
class PlottedRun:
    """A run's folder and its label in a picture."""

    label: str
    folder: Path

    @classmethod
    def parse(cls, text: str) -> "PlottedRun":
        """Read FOLDER or LABEL=FOLDER."""
        label, equals, folder = text.partition("=")
        if equals and label and not Path(text).is_dir():
            return cls(label, Path(folder))
        return cls(Path(text).resolve().name, Path(text))


def save(figure: Figure, out: Path) -> None:
    """Write the picture in the format of the file's extension. Raises NoRunError for an unknown extension."""
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(out, dpi=150, metadata={"Date": None} if out.suffix == ".svg" else None)
    except ValueError as error:  # an unknown extension
        raise NoRunError(f"{out}: {error}. Give a name that ends in .svg, .png or .pdf.") from error


Row = dict[str, Any]  # the metrics of a step; None: unknown

_MANY_STEPS = 60  # with more steps, a curve is drawn as its running mean, with the values of the steps behind it


@dataclass(frozen=True, slots=True)
class _Curve:
    """A metric, the style of its line, and its label where a panel has several."""

    metric: str
    style: str = "-"
    label: str = ""


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    curves: tuple[_Curve, ...]


_PANELS = (
    _Panel("Reward, mean of a batch", (_Curve("reward"),)),
    _Panel("pass@1 on the evaluation set", (_Curve("eval/pass@1"),)),  # with several suites: --evaluations
    _Panel(
        "Tokens of a completion, mean",
        (_Curve("completions/mean_length", "-", "in training"), _Curve("eval/mean_length", ":", "in evaluation")),
    ),
    _Panel("Entropy, nats per token", (_Curve("entropy"),)),
    _Panel(
        "Share of tokens clipped",
        (
            _Curve("clip_ratio/high_mean", "-", "above 1 + clip_high"),
            _Curve("clip_ratio/low_mean", ":", "below 1 - clip_low"),
        ),
    ),
    _Panel("Share of completions cut off at the length limit", (_Curve("completions/clipped_ratio"),)),
)


def plot_curves(runs: Sequence[PlottedRun], out: Path) -> None:
    """Draw the curves of these runs into a file. Raises NoRunError."""
    rows: dict[str, list[list[Row]]] = {}  # for each label, the rows of each of its runs
    for run in runs:
        rows.setdefault(run.label, []).append(_steps(run.folder))
    names = {
        name
        for of_label in rows.values()
        for run in of_label
        for row in run
        for name, value in row.items()
        if value is not None
    }
    panels = [panel for panel in map(partial(_with_known_curves, names=names), _PANELS) if panel.curves]
    if not panels:
        raise NoRunError(f"{runs[0].folder}: no step is finished yet. Wait for the first one.")
    has_seeds = any(len(of_label) > 1 for of_label in rows.values())
    colours = {label: COLOURS[number % len(COLOURS)] for number, label in enumerate(rows)}
    n_columns = 2 if len(panels) > 1 else 1
    n_rows = -(-len(panels) // n_columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.8 * n_columns, 2.5 * n_rows + 0.5), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False).flatten()
        for place, panel in zip(axes, panels, strict=False):
            _draw_panel(place, panel, rows, colours, interval=not has_seeds)
        for place in axes[len(panels) :]:
            place.remove()
        if len(runs) > 1:
            handles = [
                Line2D([], [], color=colour, label=label + (f" ({n} runs)" if (n := len(rows[label])) > 1 else ""))
                for label, colour in colours.items()
            ]
            title = (
                "Lines are means of the runs, bands reach from the lowest to the highest run." if has_seeds else None
            )
            figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 3), title=title)
        save(figure, out)


def _with_known_curves(panel: _Panel, names: Set[str]) -> _Panel:
    return replace(panel, curves=tuple(curve for curve in panel.curves if curve.metric in names))


def _draw_panel(
    place: Axes,
    panel: _Panel,
    rows: Mapping[str, Sequence[Sequence[Row]]],
    colours: Mapping[str, str],
    *,
    interval: bool,
) -> None:
    has_interval = False
    for label, of_label in rows.items():
        for curve in panel.curves:
            if len(of_label) > 1:
                _draw_band(place, of_label, curve, colours[label])
            else:
                _draw_curve(place, of_label[0], curve, colours[label])
            if interval and curve.metric == "eval/pass@1":
                has_interval |= _draw_interval(place, of_label[0], curve.metric, colours[label])
    last = max(row["step"] for of_label in rows.values() for run in of_label for row in run) or 1
    place.set_title(panel.title + (", with its 95% interval" if has_interval else ""))
    place.set_xlabel("step")
    place.set_xlim(-0.02 * last, 1.02 * last)
    place.set_ylim(bottom=min(0, place.dataLim.y0), top=1 if panel.title.startswith("pass@1") else None)
    if panel.title.startswith("Share"):
        place.yaxis.set_major_formatter(PercentFormatter(1))
    if len(panel.curves) > 1:
        place.legend(
            handles=[Line2D([], [], color="#444444", ls=curve.style, label=curve.label) for curve in panel.curves]
        )


def _steps(folder: Path) -> list[Row]:
    if not (folder / METRICS).is_file():
        raise NoRunError(f"{folder}: there is no {METRICS} in it. Give the folder of a run of curate train.")
    return read_metrics(folder)


def _draw_curve(place: Axes, rows: Sequence[Row], curve: _Curve, colour: str) -> None:
    """Draw the curve of one run."""
    known = [row for row in rows if row.get(curve.metric) is not None]
    at, values = [row["step"] for row in known], [row[curve.metric] for row in known]
    if len(at) > _MANY_STEPS:
        place.plot(at, values, color=colour, alpha=0.25, lw=0.7)
        values = _running_mean(values, len(values) // 60)
    _draw_line(place, at, values, curve, colour)


def _draw_band(place: Axes, runs: Sequence[Sequence[Row]], curve: _Curve, colour: str) -> None:
    """Draw the mean of several runs in a band from the lowest to the highest, at the steps that all of them have."""
    by_run = [{row["step"]: row[curve.metric] for row in run if row.get(curve.metric) is not None} for run in runs]
    at = sorted(set.intersection(*(set(values) for values in by_run)))
    values = [[of_run[step] for of_run in by_run] for step in at]
    shown = [[fmean(of_step) for of_step in values], [min(of_step) for of_step in values], [max(v) for v in values]]
    if len(at) > _MANY_STEPS:
        shown = [_running_mean(line, len(at) // 60) for line in shown]
    mean, low, high = shown
    place.fill_between(at, low, high, color=colour, alpha=0.2, lw=0)
    _draw_line(place, at, mean, curve, colour)


def _draw_line(place: Axes, at: Sequence[int], values: Sequence[float], curve: _Curve, colour: str) -> None:
    marker = "o" if len(at) < 2 or curve.metric.startswith("eval/") else ""
    # Not clipped, so that a curve that is zero throughout can be seen.
    place.plot(at, values, color=colour, ls=curve.style, lw=1.5, marker=marker, ms=3, clip_on=False)


def _draw_interval(place: Axes, rows: Sequence[Row], name: str, colour: str) -> bool:
    """Draw the confidence interval of a metric if it is known, and return whether it is."""
    known = [row for row in rows if row.get(name) is not None]
    if not known or any(row.get(f"{name}_{end}") is None for row in known for end in ("low", "high")):
        return False
    low, high = ([row[f"{name}_{end}"] for row in known] for end in ("low", "high"))
    place.fill_between([row["step"] for row in known], low, high, color=colour, alpha=0.15, lw=0)
    return True


def _running_mean(values: Sequence[float], width: int) -> list[float]:
    """Return, for each value, the mean of it and `width` values on either side, or fewer at the ends."""
    parts = (values[max(0, place - width) : place + width + 1] for place in range(len(values)))
    return [sum(part) / len(part) for part in parts]


Bar = dict[str, Any]  # a line of the timeline: step, part, batch, and the seconds at which it began and ended

# A lane of the timeline: the part of the run, its label, and its colour.
_LANES = (
    ("sample", "sampling", "#0072B2"),
    ("reward", "rewards awaited", "#009E73"),
    ("train", "training", "#D55E00"),
    ("sync", "new weights", "#CC79A7"),
    ("evaluate", "evaluation", "#777777"),
    ("checkpoint", "checkpoint", "#777777"),
)
_MAX_STEPS = 16  # steps in a picture; the last ones of a longer run are shown


def plot_timeline(runs: Sequence[PlottedRun], out: Path) -> None:
    """Draw when each part of each run was busy, with one scale for all runs; white is idle. Raises NoRunError."""
    bars_of_runs = [(run, _last_steps(_thresholds(run.folder))) for run in runs]
    longest = max(_span(bars)[1] - _span(bars)[0] for _, bars in bars_of_runs)
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        heights = [0.9 + 0.3 * len(_lanes(bars)) for _, bars in bars_of_runs]
        figure = Figure(figsize=(9.6, 0.4 + sum(heights)), layout="constrained")
        axes = figure.subplots(len(bars_of_runs), 1, squeeze=False, gridspec_kw={"height_ratios": heights}).flatten()
        for place, (run, bars) in zip(axes, bars_of_runs, strict=True):
            _draw_lanes(place, run.label, bars, longest)
        axes[-1].set_xlabel("seconds")
        save(figure, out)


def _thresholds(folder: Path) -> list[Bar]:
    # The number of a batch is that of its step, unless the line says otherwise.
    bars = [
        {"batch": line["step"], **line}
        for line in read_json_lines(folder / TIMELINE)
        if {"step", "part", "began", "ended"} <= line.keys()
    ]
    if not bars:
        raise NoRunError(f"{folder}: its {TIMELINE} is missing or empty. Give the folder of a run of curate train.")
    return bars


def _last_steps(bars: list[Bar]) -> list[Bar]:
    first = sorted({bar["step"] for bar in bars})[-_MAX_STEPS:][0]
    return [bar for bar in bars if bar["step"] >= first]


def _lanes(bars: Sequence[Bar]) -> list[tuple[str, str, str]]:
    parts = {bar["part"] for bar in bars}
    return [lane for lane in _LANES if lane[0] in parts]


def _span(bars: Sequence[Bar]) -> tuple[float, float]:
    return min(bar["began"] for bar in bars), max(bar["ended"] for bar in bars)


def _draw_lanes(place: Axes, label: str, bars: Sequence[Bar], longest: float) -> None:
    begin, end = _span(bars)
    lanes = _lanes(bars)
    names = []
    for height, (part, words, colour) in enumerate(lanes):
        for batch in sorted({bar["batch"] for bar in bars}):
            of_batch = [(bar["began"], bar["ended"]) for bar in bars if (bar["part"], bar["batch"]) == (part, batch)]
            # In two shades, so that batches can be told apart where one begins as the other ends.
            shade = 0.95 - 0.4 * (batch % 2)
            for began, ended in _joined(of_batch, gap=longest / 400):  # bars that would look like one are joined
                place.broken_barh(
                    [(began - begin, ended - began)], (height - 0.4, 0.8), color=colour, alpha=shade, lw=0
                )
                if part in ("sample", "train", "evaluate") and ended - began > longest / 70:
                    middle = (began + ended) / 2 - begin
                    place.text(middle, height, str(batch), ha="center", va="center", fontsize=7, color="white")
        of_part = [(bar["began"], bar["ended"]) for bar in bars if bar["part"] == part]
        busy_seconds = sum(ended - began for began, ended in _joined(of_part))
        names.append(f"{words} {busy_seconds / (end - begin or 1):.0%}")
    place.set_yticks(range(len(lanes)), names)
    place.tick_params(axis="y", length=0)
    place.invert_yaxis()
    place.set_xlim(0, longest or 1)
    first, last = min(bar["step"] for bar in bars), max(bar["step"] for bar in bars)
    place.set_title(
        f"{label}: steps {first} to {last} in {end - begin:.3g} s; shares are of that time, white is idle, "
        "numbers are those of batches"
    )


def _joined(spans: Sequence[tuple[float, float]], *, gap: float = 0.0) -> list[tuple[float, float]]:
    """Join those stretches of time that overlap or are at most `gap` seconds apart."""
    joined: list[tuple[float, float]] = []
    for began, ended in sorted(spans):
        if joined and began <= joined[-1][1] + gap:
            joined[-1] = joined[-1][0], max(joined[-1][1], ended)
        else:
            joined.append((began, ended))
    return joined


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
            _plot_by_month_draw_curve(lower, curve, colour, name)
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


def _plot_by_month_draw_curve(place: Axes, curve: Mapping[str, Summary], colour: str, name: str) -> None:
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
