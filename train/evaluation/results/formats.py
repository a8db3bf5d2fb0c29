"""A leaderboard as text, Markdown, HTML or CSV."""

import csv
import io
from collections.abc import Callable
from html import escape

from train.evaluation.results.breakdown import format_interval, format_share
from train.evaluation.results.leaderboard import Cell, Leaderboard

LEGEND = "pass@1 with its 95% interval. Best of a suite: {best}. Not significantly worse than the best: {close}."
_CSV = ("model", "suite", "file", "problems", "samples", "k", "pass_at_1", "standard_error", "low", "high")
_CSV_MARKS = ("best", "p_from_best", "not_significantly_worse")
_CSV_RATING = ("rating", "rating_by", "rating_low", "rating_high", "percentile")


def rating_notes(board: Leaderboard) -> list[str]:
    """Return a line for each model and suite that has a rating besides pass@1."""
    return [
        f"{model}, {suite}: {cell.result.ratings[0].summary_line}"
        for (model, suite), cell in board.cells.items()
        if cell.result.ratings
    ]


def leaderboard_table(board: Leaderboard, mark: Callable[[Cell, str, str], str]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the cells of each row.

    mark: makes the text of a cell from the cell, its pass@1 and its interval.
    """

    def text(model: str, suite: str) -> str:
        cell = board.cells.get((model, suite))
        if cell is None:
            return ""
        return mark(
            cell, format_share(cell.summary.pass_at_1), f"({format_interval(cell.summary.low, cell.summary.high)})"
        )

    return ["model", *board.suites], [
        [model, *(text(model, suite) for suite in board.suites)] for model in board.models
    ]


def text_cells(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the cells of each row for a terminal: * is the best, ~ is close to it."""
    return leaderboard_table(
        board, lambda cell, value, range: f"{value} {range} {'*' if cell.is_best else '~' if cell.is_close else ' '}"
    )


def as_markdown(board: Leaderboard) -> str:
    """Return a table in which the best is bold and those that are not significantly worse have a tilde."""
    names, rows = leaderboard_table(board, _markdown_cell)
    lines = [names, ["---", *["--:"] * len(board.suites)], *([row[0].replace("|", "\\|"), *row[1:]] for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    notes = "".join(f"- {note}\n" for note in rating_notes(board))
    return f"{table}\n\n{LEGEND.format(best='bold', close='~')}\n" + (f"\n{notes}" if notes else "")


def _markdown_cell(cell: Cell, value: str, range: str) -> str:
    return f"**{value}** {range}" if cell.is_best else f"{value}{' ~' if cell.is_close else ''} {range}"


def as_html(board: Leaderboard) -> str:
    """Return a whole page with one table."""

    def text(cell: Cell, value: str, range: str) -> str:
        shown = f"<b>{value}</b>" if cell.is_best else f"{value}{' ~' if cell.is_close else ''}"
        return f"{shown} <small>{range}</small>"

    names, rows = leaderboard_table(board, text)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "\n".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in rating_notes(board))
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Evaluations</title>
<style>
body {{ font-family: sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: 0.3em 1em; text-align: right; border-bottom: 1px solid #ddd; }}
th:first-child {{ text-align: left; }}
small {{ color: #666; }}
</style></head>
<body>
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
<p>{escape(LEGEND.format(best="bold", close="~"))}</p>
{notes}</body>
</html>
"""


def as_csv(board: Leaderboard) -> str:
    """Return one line for each model and suite, with all digits. What is unknown is empty."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*_CSV, *_CSV_MARKS, *_CSV_RATING])
    for (model, suite), cell in board.cells.items():
        found = cell.summary
        numbers = [found.pass_at_1, found.standard_error, found.low, found.high]
        writer.writerow(
            [model, suite, cell.result.path, found.n_problems, found.n_samples, cell.result.k]
            + list(map(_digits, numbers))
            + [int(cell.is_best), "" if cell.p_corrected is None else repr(cell.p_corrected), int(cell.is_close)]
            + _rating_cells(cell)
        )
    return written.getvalue()


def _rating_cells(cell: Cell) -> list[str]:
    """Return the cells of the rating that says most; empty ones if there is none."""
    if not cell.result.ratings:
        return [""] * len(_CSV_RATING)
    rating = cell.result.ratings[0]
    return [_digits(rating.rating), rating.basis, *map(_digits, (rating.low, rating.high, rating.percentile))]


def _digits(number: float) -> str:
    return "" if number != number else repr(number)
