"""Text of strangers on a terminal: what would move its cursor, set its colours or turn letters round is spelled out."""

import unicodedata
from collections.abc import Iterator, Sequence


def printable(text: str) -> str:
    """The text with control and formatting characters as escapes such as \\x1b; line ends and tabs stay."""
    return "".join(map(_shown, text.replace("\r\n", "\n")))


def one_line(text: str, width: int) -> str:
    """The text on one line of at most so many characters, with line ends as \\n; what is cut is marked by dots."""
    shown = printable(text[: width + 1]).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= width else shown[: width - 3] + "..."


def table(header: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "") -> Iterator[str]:
    """Lines of a table: columns of numbers to the right, those of words to the left, None as a dash."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [
        all(value is None or isinstance(value, int | float) for value in column) for column in zip(*rows, strict=True)
    ] or [False] * len(header)
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    for line in ([printable(name) for name in header], *cells):
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        yield (indent + "  ".join(aligned)).rstrip()


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return one_line(str(value), 60)


def _shown(character: str) -> str:
    if character in "\n\t" or character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()
