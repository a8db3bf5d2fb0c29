"""Tables and warnings of commands: with rich on a terminal, as plain lines with fixed widths elsewhere."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table. width: number of characters in plain lines; is_text: False for right-aligned numbers."""

    name: str
    width: int
    is_text: bool = False

    def pad(self, cell: str) -> str:
        return f"{cell:<{self.width}}" if self.is_text else f"{cell:>{self.width}}"


@dataclass(frozen=True, slots=True)
class TableRow:
    """The cells of a row, and a note below it."""

    cells: Sequence[str]
    note: str = ""


def print_table(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> None:
    """Print a table on stdout."""
    if is_terminal():
        _print_with_rich(columns, rows)
        return
    for row in (TableRow([column.name for column in columns]), *rows):
        click.echo("".join(column.pad(cell) for column, cell in zip(columns, row.cells, strict=True)))
        if row.note:
            click.echo(f"  {row.note}")


def warn(message: str) -> None:
    """Print a warning on stderr, in color on a terminal."""
    click.echo(click.style("Warning:", fg="yellow", bold=True) + f" {message}", err=True)


def is_terminal() -> bool:
    """Return whether stdout is a terminal with control sequences."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _print_with_rich(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        style = "cyan" if number == 0 and column.is_text else ""
        table.add_column(column.name, justify="left" if column.is_text else "right", style=style, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row.cells))  # in a str, rich would parse brackets as markup
    console = Console()
    console.print(table)
    for row in rows:
        if row.note:
            console.print(Text.assemble((f"{row.cells[0]}: ", "cyan"), row.note))
