"""Positions of bars, ticks and labels of a chart, for page.html.

Horizontal positions are in percent of the plot's width, so the text of a chart does not scale with the page. Vertical
positions are in pixels from the top, as in SVG.
"""

import itertools
import math
from dataclasses import dataclass

from curate.text.document import Chart

HEIGHT = 150.0  # pixels of the plot, without labels
_GAP = 0.12  # blank share of a bar's slot
_MAX_LABELED_BARS = 12  # labels of more bars would overlap
_CHARACTERS = 50  # of all labels below a chart


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    width: float
    y: float
    height: float
    series: int
    label: str  # the text above the bar; may be empty
    tooltip: str  # the text that appears when the pointer is over the bar


@dataclass(frozen=True, slots=True)
class Tick:
    position: float
    label: str
    minor: bool = False  # hidden on a narrow page


@dataclass(frozen=True, slots=True)
class Drawing:
    """The positions of all elements of a chart. band: left edge and width"""

    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    band: tuple[float, float] | None
    line: float | None


def draw(chart: Chart) -> Drawing:
    """Compute the positions of all elements of a chart."""
    slot = 100 / max(len(chart.labels), 1)
    ticks = _round_ticks(max((max(counts, default=0) for counts in chart.counts.values()), default=0))
    return Drawing(
        bars=tuple(_place_bars(chart, slot, top=ticks[-1])),
        x_ticks=_place_x_ticks(chart, slot),
        y_ticks=tuple(Tick(HEIGHT - HEIGHT * tick / ticks[-1], f"{tick:,}") for tick in ticks),
        band=None if chart.band is None else (chart.band[0] * slot, (chart.band[1] + 1 - chart.band[0]) * slot),
        line=None if chart.line is None else chart.line * slot,
    )


def _place_bars(chart: Chart, slot: float, top: int) -> list[Bar]:
    width = slot * (1 - _GAP) / len(chart.counts)
    labelled = len(chart.labels) <= _MAX_LABELED_BARS and len(chart.counts) == 1
    bars = []
    for series, counts in enumerate(chart.counts.values()):
        for index, (name, count) in enumerate(zip(chart.labels, counts, strict=True)):
            if count:
                height = max(1.5, HEIGHT * count / top)  # the minimum keeps small counts visible
                x = index * slot + slot * _GAP / 2 + series * width
                label = f"{count:,}" if labelled else ""
                bars.append(Bar(x, width, HEIGHT - height, height, series, label, f"{name}: {count:,}"))
    return bars


def _place_x_ticks(chart: Chart, slot: float) -> tuple[Tick, ...]:
    """Return every n-th tick, with the smallest n that fits. Ticks on edges always include the last edge."""
    labels = chart.ticks or chart.labels
    step = max(1, math.ceil(len(labels) * max(map(len, labels), default=0) / _CHARACTERS))
    ticks = []
    for index, label in enumerate(labels):
        number = len(labels) - 1 - index if chart.ticks else index
        if number % step == 0:
            position = slot * (index if chart.ticks else index + 0.5)
            ticks.append(Tick(position, label, minor=bool(number // step % 2)))
    return tuple(ticks)


def _round_ticks(max_count: int) -> list[int]:
    """Return a few round numbers from 0 to above the highest bar and its label."""
    wanted = max(max_count * 1.08, 1)
    sizes = (10**digits * part for digits in itertools.count() for part in (1, 2, 5))
    step = next(size for size in sizes if wanted / size <= 4)
    return list(range(0, math.ceil(wanted / step) * step + 1, step))
