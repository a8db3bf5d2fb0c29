"""Define the command `curate results`."""

from pathlib import Path

import click

from sandbox.commands.console import report_user_errors
from train.commands.options import print_cells

_FORMATS = ("text", "markdown", "html", "csv", "model-card")


@click.command("results")
@click.argument(
    "results", nargs=-1, required=True, metavar="FILE|FOLDER...", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help="Form of the table."
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the table to this file.  [default: print it]"
)
def command(results: tuple[Path, ...], form: str, out: Path | None) -> None:
    """Show evaluations as a table: a row for each model, a column for each suite, pass@1 with its 95% interval.

    The files are those of `curate evaluate --out`. The best of each suite is marked, and so are the models that are not
    significantly worse than it. `model-card` makes the section of a model card from the results of one model.
    """
    from curate.dataset.output_folder import write_atomic
    from curate.errors import CurateError
    from train.evaluation.results import tables
    from train.evaluation.results.result import read_results

    with report_user_errors(CurateError, OSError):
        found = read_results(results)
        if form == "text":
            board = tables.leaderboard(found)
            if out is not None:
                raise CurateError("--out needs another --format: markdown, html, csv or model-card.")
            print_cells(*tables.text_cells(board))
            click.echo(tables.LEGEND.format(best="*", close="~"))
            for note in tables.rating_notes(board):
                click.echo(note)
            return
        if form == "model-card":
            text = tables.model_card_section(found)
        else:
            form_table = {"markdown": tables.as_markdown, "html": tables.as_html, "csv": tables.as_csv}[form]
            text = form_table(tables.leaderboard(found))
        if out is None:
            click.echo(text, nl=False)
            return
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, text)
    click.echo(out)
