"""Formatting of untrusted texts for display: escaped control characters, and marked truncation."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

EXCERPT_BYTES = 4096


def shorten_text(text: str) -> str:
    """Return the text, or its first EXCERPT_BYTES in UTF-8 and a last line with the length of the whole text.

    Lone surrogates, which UTF-8 cannot encode, become escapes such as \\udc80.
    """
    # Every character takes at least one byte, so the beginning of a huge text suffices.
    encoded = text[: EXCERPT_BYTES + 1].encode("utf-8", "backslashreplace")
    if len(encoded) <= EXCERPT_BYTES:
        return encoded.decode()
    return f"{encoded[:EXCERPT_BYTES].decode('utf-8', 'ignore')}\n[... cut: {len(text):,} characters in all]"


_UNUSUAL = re.compile(r"[^\n\t -~]+")


def escape_unprintable(text: str) -> str:
    """Escape control and formatting characters, such as \\x1b, except line ends and tabs."""
    return _UNUSUAL.sub(lambda found: "".join(map(_escape, found[0])), text.replace("\r\n", "\n"))


def format_one_line(text: str, width: int) -> str:
    """Return the text on one line of at most `width` characters, with escaped line ends, and "..." if truncated."""
    shown = escape_unprintable(text[: width + 1]).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= width else shown[: width - 3] + "..."


def format_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table, with numbers right-aligned, text left-aligned, and None as a dash."""
    cells = [[_format_cell(value) for value in row] for row in rows]
    numeric = [
        all(value is None or isinstance(value, int | float) for value in column) for column in zip(*rows, strict=True)
    ] or [False] * len(header)
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    for line in ([escape_unprintable(name) for name in header], *cells):
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        yield "  ".join(aligned).rstrip()


def _format_cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return format_one_line(str(value), 60)


def _escape(character: str) -> str:
    if character in "\n\t" or character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()
