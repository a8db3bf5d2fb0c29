"""Pictures of runs: the curves that are watched, several runs side by side, and who was idle when.

Runs of one label share a colour, as the seeds of one setting do. What a run has no figures of is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from train.errors import NoRunError
from train.run.metrics import METRICS, lines, steps
from train.run.timeline import TIMELINE

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito: for all eyes
_STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "legend.edgecolor": "none",
    "svg.hashsalt": "curate",  # the same figures, the same file
    "svg.fonttype": "none",  # text stays text, to be found and selected
}
_MANY = 60  # steps, beyond which a curve is drawn as its running mean, with the steps themselves behind it

# A panel: title, and its curves as (figure, style of the line, words for it where there are several).
_PANELS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("Reward, mean of a batch", (("reward", "-", ""),)),
    ("pass@1 on the evaluation set, with its 95% interval", (("eval/pass@1", "-", ""),)),
    (
        "Tokens of a completion, mean",
        (("completions/mean_length", "-", "in training"), ("eval/mean_length", ":", "in evaluation")),
    ),
    ("Entropy, nats per token", (("entropy", "-", ""),)),
    (
        "Share of tokens clipped",
        (("clip_ratio/high_mean", "-", "above 1 + clip_high"), ("clip_ratio/low_mean", ":", "below 1 - clip_low")),
    ),
    ("Share of completions cut off at the length limit", (("completions/clipped_ratio", "-", ""),)),
)
# A lane of the timeline: part, who is busy with it, colour.
_LANES = (
    ("sample", "sampling", "#0072B2"),
    ("reward", "rewards awaited", "#009E73"),
    ("train", "training", "#D55E00"),
    ("sync", "new weights", "#CC79A7"),
    ("evaluate", "evaluation", "#777777"),
    ("checkpoint", "checkpoint", "#777777"),
)
_SHOWN = 16  # steps of a timeline; of longer runs the last ones


@dataclass(frozen=True, slots=True)
class Run:
    """A run's folder and what it is called in a picture."""

    label: str
    folder: Path

    @classmethod
    def parse(cls, text: str) -> "Run":
        """FOLDER, or LABEL=FOLDER."""
        label, equals, folder = text.partition("=")
        if equals and label and not Path(text).is_dir():
            return cls(label, Path(folder))
        return cls(Path(text).resolve().name, Path(text))


def curves(runs: Sequence[Run], out: Path) -> None:
    """Draw the curves of these runs into a file, of the kind that its ending says. Raises NoRunError."""
    found = [(run, _steps(run.folder)) for run in runs]
    names = {name for _, rows in found for row in rows for name, value in row.items() if value is not None}
    panels = [(title, kept) for title, drawn in _PANELS if (kept := [one for one in drawn if one[0] in names])]
    if not panels:
        raise NoRunError(f"{runs[0].folder}: no step of it has been counted yet. Wait for the first one.")
    last = max(row["step"] for _, rows in found for row in rows) or 1
    colours = _colours(runs)
    columns = 2 if len(panels) > 1 else 1
    height = -(-len(panels) // columns)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(4.8 * columns, 2.5 * height + 0.5), layout="constrained")
        axes = figure.subplots(height, columns, squeeze=False).flatten()
        for place, (title, drawn) in zip(axes, panels, strict=False):
            for run, rows in found:
                for name, style, _ in drawn:
                    _curve(place, rows, name, colours[run.label], style)
            place.set_title(title)
            place.set_xlabel("step")
            place.set_xlim(-0.02 * last, 1.02 * last)
            place.set_ylim(bottom=min(0, place.dataLim.y0), top=1 if title.startswith("pass@1") else None)
            if title.startswith("Share"):
                place.yaxis.set_major_formatter(PercentFormatter(1))
            if len(drawn) > 1:
                place.legend(handles=[Line2D([], [], color="#444444", ls=ls, label=words) for _, ls, words in drawn])
        for place in axes[len(panels) :]:
            place.remove()
        if len(colours) > 1 or len(runs) > 1:
            handles = [Line2D([], [], color=colour, label=label) for label, colour in colours.items()]
            figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 4))
        _save(figure, out)


def timeline(runs: Sequence[Run], out: Path) -> None:
    """Draw which part of each run was busy when, all to the same scale; white is idle. Raises NoRunError."""
    found = [(run, _last(_bars(run.folder))) for run in runs]
    longest = max(_span(bars)[1] - _span(bars)[0] for _, bars in found)
    with matplotlib.rc_context({**_STYLE, "axes.grid": False}):
        heights = [0.9 + 0.3 * len(_lanes(bars)) for _, bars in found]
        figure = Figure(figsize=(9.6, 0.4 + sum(heights)), layout="constrained")
        axes = figure.subplots(len(found), 1, squeeze=False, gridspec_kw={"height_ratios": heights}).flatten()
        for place, (run, bars) in zip(axes, found, strict=True):
            _draw_lanes(place, run.label, bars, longest)
        axes[-1].set_xlabel("seconds")
        _save(figure, out)


Bar = dict[str, Any]


def _steps(folder: Path) -> list[dict[str, Any]]:
    if not (folder / METRICS).is_file():
        raise NoRunError(f"{folder}: no {METRICS} inside. Give the folder of a run of curate train.")
    return steps(folder)


def _bars(folder: Path) -> list[Bar]:
    bars = [line for line in lines(folder / TIMELINE) if {"part", "began", "ended"} <= line.keys()]
    if not bars:
        raise NoRunError(f"{folder}: no {TIMELINE} inside, or an empty one. Give the folder of a run of curate train.")
    return bars


def _last(bars: list[Bar]) -> list[Bar]:
    first = sorted({bar["step"] for bar in bars})[-_SHOWN:][0]
    return [bar for bar in bars if bar["step"] >= first]


def _colours(runs: Sequence[Run]) -> dict[str, str]:
    labels = list(dict.fromkeys(run.label for run in runs))
    return {label: _COLOURS[number % len(_COLOURS)] for number, label in enumerate(labels)}


def _curve(place: Axes, rows: Sequence[dict[str, Any]], name: str, colour: str, style: str) -> None:
    known = [row for row in rows if row.get(name) is not None]
    at, values = [row["step"] for row in known], [row[name] for row in known]
    marker = "o" if len(at) < 2 or name.startswith("eval/") else ""
    if len(at) > _MANY:
        place.plot(at, values, color=colour, alpha=0.25, lw=0.7)
        values = _running_mean(values, len(values) // 60)
    # Not clipped, so that a curve that is zero throughout can be seen.
    place.plot(at, values, color=colour, ls=style, lw=1.5, marker=marker, ms=3, clip_on=False)
    if name == "eval/pass@1" and all(row.get(f"{name}_{end}") is not None for row in known for end in ("low", "high")):
        low, high = ([row[f"{name}_{end}"] for row in known] for end in ("low", "high"))
        place.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)


def _running_mean(values: Sequence[float], width: int) -> list[float]:
    """Of each value and so many on either side, fewer at the ends."""
    parts = (values[max(0, place - width) : place + width + 1] for place in range(len(values)))
    return [sum(part) / len(part) for part in parts]


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
        for step in sorted({bar["step"] for bar in bars}):
            of_step = [(bar["began"], bar["ended"]) for bar in bars if (bar["part"], bar["step"]) == (part, step)]
            # Of two shades, so that steps can be told apart where one begins as the other ends.
            shade = 0.95 - 0.4 * (step % 2)
            for began, ended in _joined(of_step, gap=longest / 400):  # what would look like one bar is one
                place.broken_barh(
                    [(began - begin, ended - began)], (height - 0.4, 0.8), color=colour, alpha=shade, lw=0
                )
                if part in ("sample", "train", "evaluate") and ended - began > longest / 70:
                    middle = (began + ended) / 2 - begin
                    place.text(middle, height, str(step), ha="center", va="center", fontsize=7, color="white")
        of_part = [(bar["began"], bar["ended"]) for bar in bars if bar["part"] == part]
        busy_seconds = sum(ended - began for began, ended in _joined(of_part))
        names.append(f"{words} {busy_seconds / (end - begin or 1):.0%}")
    place.set_yticks(range(len(lanes)), names)
    place.tick_params(axis="y", length=0)
    place.invert_yaxis()
    place.set_xlim(0, longest or 1)
    first, last = min(bar["step"] for bar in bars), max(bar["step"] for bar in bars)
    place.set_title(f"{label}: steps {first} to {last} in {end - begin:.3g} s; shares are of that time, white is idle")


def _joined(spans: Sequence[tuple[float, float]], *, gap: float = 0.0) -> list[tuple[float, float]]:
    """The same seconds without overlaps, and without gaps that are as short."""
    found: list[tuple[float, float]] = []
    for began, ended in sorted(spans):
        if found and began <= found[-1][1] + gap:
            found[-1] = found[-1][0], max(found[-1][1], ended)
        else:
            found.append((began, ended))
    return found


def _save(figure: Figure, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(out, dpi=150, metadata={"Date": None} if out.suffix == ".svg" else None)
    except ValueError as error:  # an ending that it does not know
        raise NoRunError(f"{out}: {error}. Give a name that ends in .svg, .png or .pdf.") from error
