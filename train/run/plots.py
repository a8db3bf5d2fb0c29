"""The plots of `curate plot`: curves and timelines of runs, their evaluations by step, and pass@1 by month.

Runs with the same label, such as several seeds, become one curve: their mean, in a band from minimum to maximum. A
metric without any value has no panel.

For evaluations, the left panel shows pass@1 with its 95% interval. Most of that interval comes from the choice of
problems, which is the same for all steps. So the right panel shows the paired difference from the first evaluated step.
A filled point is significant after Holm's correction for the number of steps.

In the plot by month, a falling pass@1 may indicate contamination with old problems. The upper panel shows single
months. The lower panel shows all problems since a month, like the slider of LiveCodeBench's leaderboard.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from train.errors import NoRunError
from train.evaluation.results.result import Result, label_results
from train.evaluation.statistics.comparison import compare_with_reference, compute_contamination_curve
from train.evaluation.statistics.outcomes import STRATUM_KEYS, UNKNOWN, Summary, summarize, summarize_groups
from train.run.metrics_log import METRICS, TIMELINE, read_json_lines, read_metrics
from train.run.pending_evaluation import read_evaluations

Row = dict[str, Any]  # metrics of a step; None: unknown
Bar = dict[str, Any]  # a line of the timeline; see metrics_log.py

_STYLE: Any = {
    # The color-blind-safe palette of Okabe and Ito. "C0", "C1", ... cycle through it.
    "axes.prop_cycle": cycler(color=["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]),
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "legend.edgecolor": "none",
    "svg.hashsalt": "curate",  # fixed, so the same metrics give the same file
    "svg.fonttype": "none",  # text stays text, for search and selection
}
_GREY = "#444444"


@dataclass(frozen=True, slots=True)
class PlottedRun:
    """A run's folder and its label in a plot."""

    label: str
    folder: Path

    @classmethod
    def parse(cls, text: str) -> "PlottedRun":
        """Parse FOLDER or LABEL=FOLDER."""
        label, equals, folder = text.partition("=")
        if equals and label and not Path(text).is_dir():
            return cls(label, Path(folder))
        return cls(Path(text).resolve().name, Path(text))


@contextmanager
def _open_figure(
    out: Path, width: float, height: float, labels: Sequence[str] = (), *, title: str | None = None, grid: bool = True
) -> Iterator[Figure]:
    """Yield a figure, and write it to `out` afterwards. Raises NoRunError for an unknown file extension.

    labels  labels of a legend above the panels, in the order of colors; empty: no legend
    title   title of the legend
    """
    with matplotlib.rc_context(_STYLE | {"axes.grid": grid}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        if labels:
            handles = [Line2D([], [], color=f"C{number}", label=label) for number, label in enumerate(labels)]
            figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 3), title=title)
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            figure.savefig(out, dpi=150, metadata={"Date": None} if out.suffix == ".svg" else None)
        except ValueError as error:  # an unknown extension
            raise NoRunError(f"{out}: {error}. Give a name that ends in .svg, .png or .pdf.") from error


def _draw_band(ax: Axes, at: Sequence[int], low: Any, high: Any, color: str, alpha: float = 0.15) -> None:
    ax.fill_between(at, low, high, color=color, alpha=alpha, lw=0)


def _draw_summaries(ax: Axes, summaries: Mapping[int, Summary], color: str, **line: Any) -> None:
    """Draw pass@1 at each step or month, with its 95% interval as a band."""
    at, found = list(summaries), summaries.values()
    ax.plot(at, [summary.pass_at_1 for summary in found], color=color, lw=1.5, marker="o", ms=3, **line)
    _draw_band(ax, at, [summary.low for summary in found], [summary.high for summary in found], color)


# --- curves ---

_MAX_UNSMOOTHED_STEPS = 60  # with more steps, a curve is a running mean, in front of the faint values
_PANELS = {  # title of each panel: line style and label of each metric
    "Reward, mean of a batch": {"reward": ("-", "")},
    "pass@1 on the evaluation set": {"eval/pass@1": ("-", "")},  # not drawn for several suites; `plot_evaluations` is
    "Tokens of a completion, mean": {
        "completions/mean_length": ("-", "in training"),
        "eval/mean_length": (":", "in evaluation"),
    },
    "Entropy, nats per token": {"entropy": ("-", "")},
    "Share of tokens clipped": {
        "clip_ratio/high_mean": ("-", "above 1 + clip_high"),
        "clip_ratio/low_mean": (":", "below 1 - clip_low"),
    },
    "Share of completions truncated at the length limit": {"completions/clipped_ratio": ("-", "")},
}


def plot_curves(runs: Sequence[PlottedRun], out: Path) -> None:
    """Draw training metrics of these runs to a file. Raises NoRunError if a run has none."""
    by_label: dict[str, list[list[Row]]] = {}
    for run in runs:
        if not (run.folder / METRICS).is_file():
            raise NoRunError(f"{run.folder} has no {METRICS}. Give the folder of a run that curate train wrote.")
        by_label.setdefault(run.label, []).append(read_metrics(run.folder))
    rows = [row for of_label in by_label.values() for run_rows in of_label for row in run_rows]
    known = {name for row in rows for name, value in row.items() if value is not None}
    panels = [panel for panel, metrics in _PANELS.items() if known & metrics.keys()]
    if not panels:
        raise NoRunError(f"{runs[0].folder}: no step is finished yet. Wait for the first one.")
    labels = [f"{name} ({len(found)} runs)" if len(found) > 1 else name for name, found in by_label.items()]
    has_seeds = len(by_label) < len(runs)
    title = "Lines are means over runs, bands reach from the lowest to the highest run." if has_seeds else None
    last = max(row["step"] for row in rows) or 1
    n_columns = 2 if len(panels) > 1 else 1
    n_rows = -(-len(panels) // n_columns)
    with _open_figure(out, 4.8 * n_columns, 2.5 * n_rows + 0.5, labels if len(runs) > 1 else (), title=title) as figure:
        axes = figure.subplots(n_rows, n_columns, squeeze=False).flatten()
        for ax, panel in zip(axes, panels, strict=False):
            lines = {metric: line for metric, line in _PANELS[panel].items() if metric in known}
            has_interval = False
            for number, of_label in enumerate(by_label.values()):
                for metric, (line, _) in lines.items():
                    by_run = [{row["step"]: row for row in run if row.get(metric) is not None} for run in of_label]
                    _draw_curve(ax, by_run, metric, f"C{number}", line)
                    if metric == "eval/pass@1" and not has_seeds:
                        has_interval |= _draw_interval(ax, by_run[0], metric, f"C{number}")
            ax.set_title(panel + (", with its 95% interval" if has_interval else ""))
            ax.set_xlabel("step")
            ax.set_xlim(-0.02 * last, 1.02 * last)
            ax.set_ylim(bottom=min(0, ax.dataLim.y0), top=1 if panel.startswith("pass@1") else None)
            if panel.startswith("Share"):
                ax.yaxis.set_major_formatter(PercentFormatter(1))
            if len(lines) > 1:
                ax.legend(handles=[Line2D([], [], color=_GREY, ls=ls, label=label) for ls, label in lines.values()])
        for ax in axes[len(panels) :]:
            ax.remove()


def _draw_curve(ax: Axes, by_run: Sequence[Mapping[int, Row]], metric: str, color: str, line: str) -> None:
    at = sorted(set.intersection(*map(set, by_run)))  # steps that all runs have
    values = [[rows[step][metric] for rows in by_run] for step in at]
    mean, low, high = ([combine(of_step) for of_step in values] for combine in (fmean, min, max))
    if len(at) > _MAX_UNSMOOTHED_STEPS:
        if len(by_run) == 1:
            ax.plot(at, mean, color=color, alpha=0.25, lw=0.7)
        mean, low, high = (_compute_running_mean(part, len(at) // 60) for part in (mean, low, high))
    if len(by_run) > 1:
        _draw_band(ax, at, low, high, color, alpha=0.2)
    marker = "o" if len(at) < 2 or metric.startswith("eval/") else ""
    # Lines are not clipped at the axes, so a constant zero stays visible.
    ax.plot(at, mean, color=color, ls=line, lw=1.5, marker=marker, ms=3, clip_on=False)


def _draw_interval(ax: Axes, rows: Mapping[int, Row], metric: str, color: str) -> bool:
    """Draw the interval of a metric if all rows have one; return whether they do."""
    low, high = ([row.get(f"{metric}_{end}") for row in rows.values()] for end in ("low", "high"))
    if not rows or None in (*low, *high):
        return False
    _draw_band(ax, list(rows), low, high, color)
    return True


def _compute_running_mean(values: Sequence[float], width: int) -> list[float]:
    """Compute a centered running mean over 2 * `width` + 1 values, fewer at the ends."""
    parts = (values[max(0, index - width) : index + width + 1] for index in range(len(values)))
    return [sum(part) / len(part) for part in parts]


# --- timelines ---

_LANES = {  # label and color of each part of a run
    "sample": ("sampling", "#0072B2"),
    "reward": ("rewards awaited", "#009E73"),
    "train": ("training", "#D55E00"),
    "sync": ("new weights", "#CC79A7"),
    "evaluate": ("evaluation", "#777777"),
    "checkpoint": ("checkpoint", "#777777"),
}
_MAX_STEPS = 16  # maximum steps in a timeline plot; the last ones of each run are shown


def plot_timeline(runs: Sequence[PlottedRun], out: Path) -> None:
    """Draw the timelines of these runs to a file, on one time scale. Raises NoRunError if a run has none."""
    bars_of_runs = [_read_bars(run.folder) for run in runs]
    longest = max(end - begin for begin, end in map(_compute_time_range, bars_of_runs))
    heights = [0.9 + 0.3 * len(_LANES.keys() & {bar["part"] for bar in bars}) for bars in bars_of_runs]
    with _open_figure(out, 9.6, 0.4 + sum(heights), grid=False) as figure:
        axes = figure.subplots(len(runs), 1, squeeze=False, gridspec_kw={"height_ratios": heights}).flatten()
        for ax, run, bars in zip(axes, runs, bars_of_runs, strict=True):
            _draw_lanes(ax, run.label, bars, longest)
        axes[-1].set_xlabel("seconds")


def _read_bars(folder: Path) -> list[Bar]:
    bars = [
        {"batch": line["step"], **line}  # lines without a batch belong to the batch of their step
        for line in read_json_lines(folder / TIMELINE)
        if {"step", "part", "began", "ended"} <= line.keys()
    ]
    if not bars:
        raise NoRunError(
            f"{folder}: its {TIMELINE} is missing or empty. Give the folder of a run that curate train wrote."
        )
    first = sorted({bar["step"] for bar in bars})[-_MAX_STEPS:][0]
    return [bar for bar in bars if bar["step"] >= first]


def _compute_time_range(bars: Sequence[Bar]) -> tuple[float, float]:
    return min(bar["began"] for bar in bars), max(bar["ended"] for bar in bars)


def _draw_lanes(ax: Axes, label: str, bars: Sequence[Bar], longest: float) -> None:
    begin, end = _compute_time_range(bars)
    names: list[str] = []
    for part, (words, color) in _LANES.items():
        of_part = [bar for bar in bars if bar["part"] == part]
        if not of_part:
            continue
        height = len(names)
        for batch in sorted({bar["batch"] for bar in of_part}):
            # two alternating shades separate adjacent batches
            shade = 0.95 - 0.4 * (batch % 2)
            of_batch = [bar for bar in of_part if bar["batch"] == batch]
            for began, ended in _join_intervals(of_batch, gap=longest / 400):  # too small a gap to be visible
                bar = [(began - begin, ended - began)]
                ax.broken_barh(bar, (height - 0.4, 0.8), color=color, alpha=shade, lw=0)
                if part in ("sample", "train", "evaluate") and ended - began > longest / 70:
                    middle = (began + ended) / 2 - begin
                    ax.text(middle, height, str(batch), ha="center", va="center", fontsize=7, color="white")
        busy_seconds = sum(ended - began for began, ended in _join_intervals(of_part))
        names.append(f"{words} {busy_seconds / (end - begin or 1):.0%}")
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    ax.set_xlim(0, longest or 1)
    steps = [bar["step"] for bar in bars]
    ax.set_title(
        f"{label}: steps {min(steps)} to {max(steps)} in {end - begin:.3g} s; percentages are shares of that time, "
        "white is idle, numbers are batches"
    )


def _join_intervals(bars: Sequence[Bar], *, gap: float = 0.0) -> list[tuple[float, float]]:
    """Join intervals that overlap or have gaps of at most `gap` seconds."""
    joined: list[tuple[float, float]] = []
    for began, ended in sorted((bar["began"], bar["ended"]) for bar in bars):
        if joined and began <= joined[-1][1] + gap:
            joined[-1] = joined[-1][0], max(joined[-1][1], ended)
        else:
            joined.append((began, ended))
    return joined


# --- evaluations ---


def plot_evaluations(runs: Sequence[PlottedRun], out: Path) -> None:
    """Draw the evaluations of these runs to a file.

    Raises NoRunError if a run has none, and CurateError if different tests judged the steps of a run.
    """
    found = [read_evaluations(run.folder) for run in runs]
    suites = list(dict.fromkeys(suite for of_run in found for suite in of_run))
    with _open_figure(
        out, 9.6, 2.7 * len(suites) + 0.4, [run.label for run in runs] if len(runs) > 1 else ()
    ) as figure:
        axes = figure.subplots(len(suites), 2, squeeze=False)
        for suite, (left, right) in zip(suites, axes, strict=True):
            for number, of_run in enumerate(found):
                of_suite = of_run.get(suite, {})
                known = {step: result for step, result in of_suite.items() if any(each.n for each in result.outcomes)}
                if known:
                    summaries = {step: summarize(result.outcomes) for step, result in known.items()}
                    _draw_summaries(left, summaries, f"C{number}", clip_on=False)
                    _draw_differences(right, known, f"C{number}")
            left.set_title(f"pass@1 on {suite}, with its 95% interval")
            right.set_title("Difference from the first step, filled if significant")
            right.axhline(0, color=_GREY, lw=0.8)
            for ax in (left, right):
                ax.set_xlabel("step")
                ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if not any(ax.has_data() for ax in axes[:, 0]):
            raise NoRunError(f"{runs[0].folder}: no sample of its evaluations has a verdict. Evaluate again.")


def _draw_differences(ax: Axes, results: Mapping[int, Result], color: str) -> None:
    """Draw the difference of each later step from the first. Raises CurateError if their tests differ."""
    outcomes = {str(step): result.outcomes for step, result in results.items()}
    by_label = compare_with_reference(str(min(results)), outcomes)
    contenders = {step: by_label[str(step)] for step in results if str(step) in by_label}
    if not contenders:
        return
    at, found = [min(results), *contenders], [contender.comparison for contender in contenders.values()]
    ax.plot(at, [0.0, *(one.difference for one in found)], color=color, lw=1.5)
    _draw_band(ax, at, [0.0, *(one.low for one in found)], [0.0, *(one.high for one in found)], color)
    for step, contender in contenders.items():
        face = color if contender.differs else "white"
        ax.plot([step], [contender.comparison.difference], "o", ms=4, color=color, mfc=face, zorder=3)


# --- by month ---

_MODEL_OFFSET_MONTHS = 0.12  # horizontal distance between the points of two models in the same month


def plot_by_month(results: Sequence[Result], out: Path, released: date | None = None) -> None:
    """Draw pass@1 in each month and since each month to a file. Raises NoRunError if no problem has a date.

    released: release date of the model, to draw as a line
    """
    names = label_results(results)
    for result in results:
        if all(problem.metadata.date is None for problem in result.outcomes):
            raise NoRunError(f"{result.path}: no problem has a date. Evaluate a suite with dates, such as lcb.")
    of_month = [_index_by_month(summarize_groups(result.outcomes, STRATUM_KEYS["month"])) for result in results]
    since = [_index_by_month(compute_contamination_curve(result.outcomes)) for result in results]
    numbers = [number for months in of_month for number in months]
    if not numbers:
        raise NoRunError(f"{results[0].path}: no problem with a date has a verdict. Evaluate again.")
    with _open_figure(out, 7.2, 5.5, names if len(names) > 1 else ()) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True)
        for index, (months, curve) in enumerate(zip(of_month, since, strict=True)):
            shift = (index - (len(names) - 1) / 2) * _MODEL_OFFSET_MONTHS
            found = months.values()
            upper.errorbar(
                [number + shift for number in months],
                [one.pass_at_1 for one in found],
                yerr=([one.pass_at_1 - one.low for one in found], [one.high - one.pass_at_1 for one in found]),
                color=f"C{index}", fmt="o", ms=3, lw=1, capsize=2,
            )  # fmt: skip
            _draw_summaries(lower, curve, f"C{index}")
        for panel in (upper, lower):
            panel.set_ylim(0, 1)
            if released is not None:
                at = _count_months(f"{released:%Y-%m}") - 0.5 + (released.day - 1) / 31
                panel.axvline(at, color=_GREY, ls="--", lw=1)
                upper.set_title(f"released {released.isoformat()}", loc="right", color=_GREY)
        upper.set_title("pass@1 by month of publication, with its 95% interval")
        lower.set_title("pass@1 on all problems since the month")
        shown = range(min(numbers), max(numbers) + 1, max(1, -(-(max(numbers) - min(numbers) + 1) // 12)))
        lower.set_xticks(shown, [f"{month // 12}-{month % 12 + 1:02}" for month in shown], rotation=30)


def _index_by_month(summaries: Mapping[str, Summary]) -> dict[int, Summary]:
    """Return the summaries by number of the month, without months that have no judged problem."""
    return {_count_months(month): one for month, one in summaries.items() if month != UNKNOWN and one.n_problems}


def _count_months(month: str) -> int:
    """Convert a month such as "2024-08" to the number of months since year 0."""
    year, _, of_year = month.partition("-")
    return 12 * int(year) + int(of_year) - 1
