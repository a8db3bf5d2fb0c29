"""Pictures of the curves of a run, or of several runs side by side.

Runs with the same label share a colour, as the seeds of one setting do. Metrics that no run has are left out.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from train.errors import NoRunError
from train.run.metrics import METRICS, steps
from train.run.picture import STYLE, Run, save

Row = dict[str, Any]  # the metrics of a step; None: unknown

_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # by Okabe and Ito, for people with any colour vision
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
    _Panel("pass@1 on the evaluation set, with its 95% interval", (_Curve("eval/pass@1"),)),
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


def curves(runs: Sequence[Run], out: Path) -> None:
    """Draw the curves of these runs into a file. Raises NoRunError."""
    rows = [(run, _steps(run.folder)) for run in runs]
    names = {name for _, of_run in rows for row in of_run for name, value in row.items() if value is not None}
    panels = [panel for panel in map(partial(_with_known_curves, names=names), _PANELS) if panel.curves]
    if not panels:
        raise NoRunError(f"{runs[0].folder}: no step is finished yet. Wait for the first one.")
    colours = _colours(runs)
    n_columns = 2 if len(panels) > 1 else 1
    n_rows = -(-len(panels) // n_columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.8 * n_columns, 2.5 * n_rows + 0.5), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False).flatten()
        for place, panel in zip(axes, panels, strict=False):
            _draw_panel(place, panel, rows, colours)
        for place in axes[len(panels) :]:
            place.remove()
        if len(colours) > 1 or len(runs) > 1:
            handles = [Line2D([], [], color=colour, label=label) for label, colour in colours.items()]
            figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 4))
        save(figure, out)


def _with_known_curves(panel: _Panel, names: Set[str]) -> _Panel:
    return replace(panel, curves=tuple(curve for curve in panel.curves if curve.metric in names))


def _draw_panel(
    place: Axes, panel: _Panel, rows: Sequence[tuple[Run, Sequence[Row]]], colours: Mapping[str, str]
) -> None:
    for run, of_run in rows:
        for curve in panel.curves:
            _draw_curve(place, of_run, curve, colours[run.label])
    last = max(row["step"] for _, of_run in rows for row in of_run) or 1
    place.set_title(panel.title)
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
    return steps(folder)


def _colours(runs: Sequence[Run]) -> dict[str, str]:
    labels = list(dict.fromkeys(run.label for run in runs))
    return {label: _COLOURS[number % len(_COLOURS)] for number, label in enumerate(labels)}


def _draw_curve(place: Axes, rows: Sequence[Row], curve: _Curve, colour: str) -> None:
    name = curve.metric
    known = [row for row in rows if row.get(name) is not None]
    at, values = [row["step"] for row in known], [row[name] for row in known]
    marker = "o" if len(at) < 2 or name.startswith("eval/") else ""
    if len(at) > _MANY_STEPS:
        place.plot(at, values, color=colour, alpha=0.25, lw=0.7)
        values = _running_mean(values, len(values) // 60)
    # Not clipped, so that a curve that is zero throughout can be seen.
    place.plot(at, values, color=colour, ls=curve.style, lw=1.5, marker=marker, ms=3, clip_on=False)
    if name == "eval/pass@1" and all(row.get(f"{name}_{end}") is not None for row in known for end in ("low", "high")):
        low, high = ([row[f"{name}_{end}"] for row in known] for end in ("low", "high"))
        place.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)


def _running_mean(values: Sequence[float], width: int) -> list[float]:
    """Return, for each value, the mean of it and `width` values on either side, or fewer at the ends."""
    parts = (values[max(0, place - width) : place + width + 1] for place in range(len(values)))
    return [sum(part) / len(part) for part in parts]
