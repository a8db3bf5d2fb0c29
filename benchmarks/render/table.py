"""Markdown tables."""

from collections.abc import Iterable


def render_table(heads: str, rows: Iterable[str], alignment: str = "lr") -> str:
    """Return a table of rows, whose cells are separated by `|`.

    alignment: l or r for each column; the last letter counts for all further columns
    """
    columns = alignment.ljust(heads.count("|") + 1, alignment[-1])
    separator = "".join("|---:" if column == "r" else "|---" for column in columns) + "|"
    head, *lines = (f"| {cells} |" for cells in (heads, *rows))
    return "\n".join([head, separator, *lines])


def join_cells(*cells: object) -> str:
    return " | ".join(map(str, cells))
