"""Pictures of the curves of a run, or of several runs side by side.

Runs with the same label, such as the seeds of one setting, are drawn as one curve, their mean, in a band from their
lowest to their highest value. Metrics that no run has are left out.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from train.errors import NoRunError
from train.run.metrics_log import METRICS, read_metrics
from train.run.plot_style import COLOURS, STYLE, PlottedRun, save

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
