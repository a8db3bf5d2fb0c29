"""Compute the positions of bars, ticks and labels from counts. This is pure geometry; page.html draws it.

Horizontal positions are in percent of the plot's width, so that a chart fills a page of any width while its letters
keep their size. Vertical positions are in pixels from the top, as in SVG.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HEIGHT = 150.0  # pixels of the plot, without labels
_GAP = 0.12  # share of a bar's space that stays free
_LABELS_ON_BARS = 12  # if there were more bars than this, their numbers would touch


@dataclass(frozen=True, slots=True)
class ChartBar:
    x: float
    width: float
    y: float
    height: float
    series: int
    label: str  # the number above the bar, or nothing
    tooltip: str  # the text that appears when the pointer is over the bar


@dataclass(frozen=True, slots=True)
class Tick:
    position: float
    label: str
    minor: bool = False  # left out where the page is narrow


@dataclass(frozen=True, slots=True)
class Chart:
    bars: tuple[ChartBar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_label: str
    y_label: str
    band: tuple[float, float] | None = None  # shaded
    band_label: str = ""
    marker_position: float | None = None
    line_label: str = ""
    legend: tuple[str, ...] = ()
    height: float = HEIGHT


def histogram_chart(
    histograms: Sequence[dict[str, Any]],
    x_label: str,
    y_label: str = "problems",
    *,
    unit: str = "",
    line: float | None = None,
    line_label: str = "",
    legend: Sequence[str] = (),
) -> Chart:
    """Draw bars of equal width, even if edges are unequally spaced. Several histograms are drawn side by side."""
    edges = histograms[0]["edges"]
    names = [f"{_number(low)} to {_number(high)}{unit}" for low, high in zip(edges, edges[1:], strict=False)]
    n = len(edges) - 1
    step = max(1, math.ceil(n / 10))
    across = tuple(
        Tick(100 * place / n, _number(edge), minor=bool((n - place) // step % 2))
        for place, edge in enumerate(edges)
        if (n - place) % step == 0
    )
    at = None if line is None else _place(line, edges)
    bars, up = _bars([h["counts"] for h in histograms], names)
    return Chart(bars, across, up, x_label, y_label, marker_position=at, line_label=line_label, legend=tuple(legend))


def integer_chart(histogram: dict[str, Any], x_label: str) -> Chart:
    """Draw a bar for each number or range of numbers, with its name under it."""
    edges = histogram["edges"]
    names = [range_label(low, high) for low, high in zip(edges, edges[1:], strict=False)]
    bars, up = _bars([histogram["counts"]], names)
    step = math.ceil(len(names) / 7)
    across = tuple(
        Tick(100 * (place + 0.5) / len(names), name, minor=bool(place // step % 2))
        for place, name in enumerate(names)
        if place % step == 0
    )
    return Chart(bars, across, up, x_label, "problems")


def solve_rate_chart(rates: dict[str, Any], x_label: str) -> Chart:
    """Draw a bar for each share of right answers that is possible, and shade the chosen band."""
    n = rates["steps"]
    shares = [step / n for step in range(n + 1)]
    bars, up = _bars([rates["counts"]], [f"{step} of {n} right" for step in range(n + 1)])
    wanted = max(1, math.ceil(n / 8))
    across = tuple(
        Tick(100 * (step + 0.5) / (n + 1), f"{share:.3g}", minor=bool((step // wanted) % 2))
        for step, share in enumerate(shares)
        if step % wanted == 0
    )
    band, label = None, ""
    if rates["band"]:
        low, high = rates["band"]
        inside = [step for step, share in enumerate(shares) if low <= share <= high]
        if inside:
            band = 100 * inside[0] / (n + 1), 100 * (inside[-1] + 1) / (n + 1)
        label = f"chosen: {low:g} to {high:g}"
    return Chart(bars, across, up, x_label, "problems", band=band, band_label=label)


def _bars(series: Sequence[Sequence[int]], names: Sequence[str]) -> tuple[tuple[ChartBar, ...], tuple[Tick, ...]]:
    most = max((max(counts, default=0) for counts in series), default=0)
    ticks = _round_ticks(most)
    top = ticks[-1]
    room = 100 / max(len(names), 1)
    width = room * (1 - _GAP) / len(series)
    labelled = len(names) <= _LABELS_ON_BARS and len(series) == 1
    bars = tuple(
        ChartBar(
            x=place * room + room * _GAP / 2 + number * width,
            width=width,
            y=HEIGHT - (height := _height(count, top)),
            height=height,
            series=number,
            label=f"{count:,}" if labelled and count else "",
            tooltip=f"{name}: {count:,}",
        )
        for number, counts in enumerate(series)
        for place, (name, count) in enumerate(zip(names, counts, strict=True))
        if count
    )
    return bars, tuple(Tick(HEIGHT - HEIGHT * tick / top, f"{tick:,}") for tick in ticks)


def _height(count: int, top: int) -> float:
    """Return the height of a bar, which is at least that of a line, so that every count can be seen."""
    return max(1.5, HEIGHT * count / top)


def _round_ticks(most: int) -> list[int]:
    """Return a few round numbers from 0 to just above the highest bar, which leaves room for its label."""
    wanted = max(most * 1.08, 1)
    sizes = (10**digits * part for digits in itertools.count() for part in (1, 2, 5))
    step = next(size for size in sizes if wanted / size <= 4)
    return list(range(0, math.ceil(wanted / step) * step + 1, step))


def _place(value: float, edges: Sequence[float | None]) -> float | None:
    """Return the place of a value between the edges, in percent, or None if it is outside of them."""
    for place, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
        if low is not None and high is not None and low <= value <= high:
            return 100 * (place + (value - low) / (high - low)) / (len(edges) - 1)
    return None


def range_label(low: float | None, high: float | None) -> str:
    """Return a name for the whole numbers from low to below high."""
    if high is None:
        return f"{_number(low)}+"
    return _number(low) if low is not None and high - low <= 1 else f"{_number(low)}–{_number(high - 1)}"


def _number(value: float | None) -> str:
    return "more" if value is None else f"{value:,g}" if value < 1e6 else f"{value:,.0f}"
