"""`curate inspect`"""

from pathlib import Path

import click

from curate.commands.printing import print_lines
from sandbox.commands.console import report_user_errors, require_extra
from sandbox.commands.table import warn


@click.command("inspect")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.argument("id", required=False)
@click.option(
    "--test",
    "number",
    type=int,
    metavar="N",
    help="Show test N of the problem in full (1-based).  [default: all tests, abbreviated]",
)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of rows to list.")
def command(dataset: Path, id: str | None, number: int | None, limit: int) -> None:
    """List the first problems of DATASET, or show all data of the kept or rejected row ID."""
    require_extra("data")
    from curate.dataset.dataset import Dataset
    from curate.dataset.inspect_rows import list_rows, show_row, show_test
    from curate.dataset.integrity import find_warnings
    from curate.dataset.location import resolve_dataset_folder
    from curate.errors import CurateError

    if id is None and number is not None:
        raise click.ClickException(
            f"--test needs the id of a problem. Type: curate inspect {dataset} ID --test {number}"
        )
    with report_user_errors(CurateError, PermissionError):
        folder = Dataset.open(resolve_dataset_folder(dataset))
        for warning in find_warnings(folder):
            warn(warning)
        if id is None:
            print_lines(list_rows(folder, limit))
        else:
            print_lines(show_row(folder, id) if number is None else show_test(folder, id, number))
