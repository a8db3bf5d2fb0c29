"""Sections of titles, sentences, tables and charts, and their renderers for a terminal and for Markdown.

curate/report/page.html has the renderer for HTML. Texts are untrusted, so every renderer escapes markup, terminal
escape sequences, pipes and line ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curate.text.printable import escape_unprintable, format_one_line, format_table

_BAR_CHARACTERS = 40  # length of the longest bar on a terminal
_CELL_CHARACTERS = 160  # maximum width of a cell in Markdown
_LINE_CHARACTERS = 1000  # maximum width of a one-line text on a terminal


class Share(float):
    """A share from 0 to 1, shown in percent."""


class Seconds(float):
    """A duration."""


class Code(str):
    """An id, a hash or other text in monospace."""

    __slots__ = ()


class Markdown(str):
    """A trusted Markdown text, which the Markdown renderer does not escape."""

    __slots__ = ()


Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Text:
    """A text. kind: "" for a sentence, "warning", "code" for a program, or "message" for output of a program"""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    header: names of the columns; empty for pairs of a name and a value
    total: a row with sums, for the terminal
    style: style on a page. "stacked": columns after the first number are segments of a bar; "steps": bars of a number,
        its losses and the rest; "shaded": larger numbers are darker
    folded: title of the fold that hides the table on a page; other renderers omit the table. Empty: not folded
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    total: Sequence[Cell] = ()
    style: str = ""
    folded: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart.

    labels: names of the bars
    counts: heights of the bars, by series
    ticks: labels at the edges between bars; empty: the names are below the bars
    band: indices of the first and the last bar of a shaded band
    line: position of a vertical line, in bars from the left
    band_label, line_label: meaning of the band and of the line
    """

    labels: Sequence[str]
    counts: Mapping[str, Sequence[int]]
    x_label: str
    y_label: str = "problems"
    ticks: Sequence[str] = ()
    band: tuple[int, int] | None = None
    band_label: str = ""
    line: float | None = None
    line_label: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """A column of an exhibit. parts: segments of its text, each with whether it differs from the other column"""

    title: Sequence[Cell]
    parts: Sequence[tuple[str, bool]]
    mark: str = ""  # "removed" or "kept": the color of marked parts
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Texts side by side, and longer texts in folds below. Only HTML pages show exhibits.

    folded: longer texts by title, each with whether it is a program or an output
    """

    title: Sequence[Cell]
    note: str = ""
    sides: Sequence[Side] = ()
    folded: Mapping[str, tuple[str, bool]] | None = None


Block = Text | Table | Chart | Exhibit


@dataclass(frozen=True, slots=True)
class Section:
    """A title and the blocks below it.

    note: a sentence below the title. In a section without blocks, it states why; only pages show such a section
    wide: whether the section takes the full width of the page
    """

    title: str
    blocks: Sequence[Block] = ()
    note: str = ""
    wide: bool = False


def render_terminal(sections: Iterable[Section]) -> Iterator[str]:
    """Yield sections as lines that are safe to print."""
    for section in sections:
        lines = [line for block in section.blocks for line in _render_block(block)]
        if lines:
            yield f"\n{format_one_line(section.title, _LINE_CHARACTERS)}\n"
            note = [format_one_line(section.note, _LINE_CHARACTERS)] if section.note else []
            yield from (f"  {line}".rstrip() for line in note + lines)


def _render_block(block: Block) -> Iterator[str]:
    match block:
        case Text(text, kind):
            prefix = {"code": "  ", "message": "| ", "warning": "Warning: "}.get(kind, "")
            yield from (prefix + line for line in escape_unprintable(text.rstrip("\n")).split("\n"))
        case Table() if not block.folded:
            rows = [*block.rows, block.total] if block.total else block.rows
            if block.header:
                yield from format_table(block.header, rows)
            else:
                names = [format_one_line(str(row[0]), _LINE_CHARACTERS) for row in rows]
                for name, (_, value) in zip(names, rows, strict=True):
                    yield f"{name:<{max(map(len, names))}}  {format_one_line(str(value), _LINE_CHARACTERS)}"
        case Chart():
            for name, counts in block.counts.items():
                if name:
                    yield format_one_line(name, _LINE_CHARACTERS)
                yield from _render_bars(block.labels, counts)


def _render_bars(labels: Sequence[str], counts: Sequence[int]) -> Iterator[str]:
    """Yield a bar for each count, except empty ones at both ends."""
    filled = [index for index, count in enumerate(counts) if count]
    if filled:
        labels, counts = labels[filled[0] : filled[-1] + 1], counts[filled[0] : filled[-1] + 1]
    names = [format_one_line(label.replace("\N{EN DASH}", "-"), _LINE_CHARACTERS) for label in labels]
    highest, width = max(counts, default=0), max(map(len, names), default=0)
    for name, count in zip(names, counts, strict=True):
        yield f"{name:<{width}}  {count:>{len(str(highest))}}  {'#' * -(-_BAR_CHARACTERS * count // max(highest, 1))}"


def render_markdown(sections: Iterable[Section], *, level: int = 2) -> Iterator[str]:
    """Yield sections as lines of Markdown. level: heading level of the sections"""
    for section in sections:
        yield f"{'#' * level} {escape_markdown(section.title)}"
        if section.note:
            yield from ("", escape_markdown(section.note))
        for block in section.blocks:
            match block:
                case Text(text, kind):
                    yield from ("", f"**{escape_markdown(text)}**" if kind == "warning" else escape_markdown(text))
                case Table() if not block.folded:
                    yield ""
                    yield _render_row(block.header)
                    yield "|" + "---|" * len(block.header)
                    yield from map(_render_row, block.rows)
        yield ""


def _render_row(cells: Sequence[Cell]) -> str:
    return f"| {' | '.join(map(_render_cell, cells))} |"


def _render_cell(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, Share):
        return f"{cell:.2%}"
    if isinstance(cell, Seconds):
        return f"{cell:.2f}"
    if isinstance(cell, Markdown):
        return cell
    if isinstance(cell, Code):
        return format_code(cell)
    return f"{cell:g}" if isinstance(cell, float) else escape_markdown(format_one_line(str(cell), _CELL_CHARACTERS))


def format_code(text: str) -> str:
    """Return a text as one line of code in Markdown, or as plain text if it contains a backtick or a pipe."""
    line = " ".join(escape_unprintable(text).split())
    return escape_markdown(line) if set(line) & set("`|") else f"`{line}`"


def escape_markdown(text: str) -> str:
    """Return a text on one line with Markdown characters escaped. Return a trusted `Markdown` text unchanged."""
    if isinstance(text, Markdown):
        return text
    escapes = {"&": "&amp;", "<": "&lt;"} | {character: f"\\{character}" for character in "\\`*[]|"}
    line = " ".join(escape_unprintable(text).split())
    # Escape a first character that would begin a heading, a quotation or a list.
    begin = "\\" if line[:1] in set("#>+-=~") else ""
    return begin + "".join(escapes.get(character, character) for character in line)


def format_value(value: Any) -> str:
    """Return a value as text: numbers without trailing zeros, lists with commas, and None as a dash."""
    if value is None or value == [] or value == {}:
        return "–"
    if isinstance(value, list):
        return ", ".join(map(format_value, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {format_value(item)}" for key, item in value.items())
    return f"{value:,g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def format_share(share: float) -> str:
    """Return a percentage, with enough digits to distinguish it from 0 % and 100 %."""
    percent = 100 * share
    if percent >= 100:
        return f"{percent:,.0f} %"
    rounded = f"{percent:.1f}" if 0.05 <= percent <= 99.95 or not percent else f"{percent:.2g}"
    return rounded.removesuffix(".0") + " %"


def format_seconds(value: float | None) -> str:
    """Return a duration with three significant digits."""
    if value is None:
        return "–"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"
