"""A Markdown table."""

from collections.abc import Iterable, Sequence


def render_table(alignment: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table. alignment: l or r for each column; the last letter counts for all further columns."""
    columns = alignment.ljust(len(heads), alignment[-1])
    separator = "".join("|---:" if column == "r" else "|---" for column in columns) + "|"
    head, *lines = (f"| {' | '.join(map(str, cells))} |" for cells in (heads, *rows))
    return "\n".join([head, separator, *lines])
