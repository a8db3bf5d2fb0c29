"""Print a table of texts: the first column on the left, the others on the right."""

from collections.abc import Sequence

from sandbox.commands.table import TableColumn, TableRow, print_table


def print_cells(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows below the names of their columns, each column as wide as its longest cell."""
    widths = [max(map(len, column)) + 2 for column in zip(names, *rows, strict=True)]
    widths[0] -= 2
    print_table(
        [
            TableColumn(name, width, is_text=place == 0)
            for place, (name, width) in enumerate(zip(names, widths, strict=True))
        ],
        [TableRow(list(row)) for row in rows],
    )
