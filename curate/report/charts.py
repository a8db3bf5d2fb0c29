"""The layout of a chart for page.html: positions of bars, ticks and labels.

Horizontal positions are in percent of the plot's width, so the text of a chart does not scale with the page. Vertical
positions are in pixels from the top, as in SVG.
"""

import itertools
import math
from dataclasses import dataclass

from curate.text.document import Chart

HEIGHT = 150.0  # height of the plot in pixels, without labels
_GAP = 0.12  # share of a bar's slot that stays blank
_MAX_LABELED_BARS = 12  # the labels of more bars would overlap
_MAX_TICK_CHARACTERS = 50  # total length of the labels below a chart


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart.

    series   index of its series
    label    text above the bar; may be empty
    tooltip  text to show while the pointer is over the bar
    """

    x: float
    width: float
    y: float
    height: float
    series: int
    label: str
    tooltip: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of an axis. minor: whether to hide it on a narrow page"""

    position: float
    label: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class ChartLayout:
    """The positions of all elements of a chart. band: left edge and width of a shaded area; line: of a vertical line"""

    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    band: tuple[float, float] | None
    line: float | None


def compute_layout(chart: Chart) -> ChartLayout:
    slot = 100 / max(len(chart.labels), 1)
    ticks = _compute_y_ticks(max((max(counts, default=0) for counts in chart.counts.values()), default=0))
    return ChartLayout(
        bars=tuple(_place_bars(chart, slot, top=ticks[-1])),
        x_ticks=_place_x_ticks(chart, slot),
        y_ticks=tuple(Tick(HEIGHT - HEIGHT * tick / ticks[-1], f"{tick:,}") for tick in ticks),
        band=None if chart.band is None else (chart.band[0] * slot, (chart.band[1] + 1 - chart.band[0]) * slot),
        line=None if chart.line is None else chart.line * slot,
    )


def _place_bars(chart: Chart, slot: float, top: int) -> list[Bar]:
    width = slot * (1 - _GAP) / len(chart.counts)
    has_labels = len(chart.labels) <= _MAX_LABELED_BARS and len(chart.counts) == 1
    bars = []
    for series, counts in enumerate(chart.counts.values()):
        for index, (name, count) in enumerate(zip(chart.labels, counts, strict=True)):
            if count:
                # The minimum keeps small counts visible.
                height = max(1.5, HEIGHT * count / top)
                x = index * slot + slot * _GAP / 2 + series * width
                label = f"{count:,}" if has_labels else ""
                bars.append(Bar(x, width, HEIGHT - height, height, series, label, f"{name}: {count:,}"))
    return bars


def _place_x_ticks(chart: Chart, slot: float) -> tuple[Tick, ...]:
    """Return every n-th tick, with the smallest n for which the labels fit. Ticks at edges include the last edge."""
    labels = chart.ticks or chart.labels
    step = max(1, math.ceil(len(labels) * max(map(len, labels), default=0) / _MAX_TICK_CHARACTERS))
    ticks = []
    for index, label in enumerate(labels):
        number = len(labels) - 1 - index if chart.ticks else index
        if number % step == 0:
            position = slot * (index if chart.ticks else index + 0.5)
            ticks.append(Tick(position, label, minor=bool(number // step % 2)))
    return tuple(ticks)


def _compute_y_ticks(max_count: int) -> list[int]:
    """Return a few round numbers, the last one above the highest bar and its label."""
    min_top = max(max_count * 1.08, 1)
    sizes = (10**digits * part for digits in itertools.count() for part in (1, 2, 5))
    step = next(size for size in sizes if min_top / size <= 4)
    return list(range(0, math.ceil(min_top / step) * step + 1, step))
