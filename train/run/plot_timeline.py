"""Pictures of timelines: when each part of a run was busy, and when it was idle."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from train.errors import NoRunError
from train.run.metrics_log import read_json_lines
from train.run.plot_style import STYLE, PlottedRun, save
from train.run.timeline import TIMELINE

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
