"""`curate inspect`"""

from pathlib import Path

import click

from curate.commands.extras import require_data
from curate.commands.reading import mistakes_explained, print_lines


@click.command("inspect")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.argument("id", required=False)
@click.option("--test", "number", type=int, metavar="N", help="Show this test of the problem whole; the first is 1.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to list.")
def command(dataset: Path, id: str | None, number: int | None, limit: int) -> None:
    """List the first problems of DATASET, or show all about the row called ID, kept or rejected."""
    require_data()
    from curate.dataset.folder import DatasetFolder
    from curate.dataset.inspect_rows import listed, one_test, shown

    if id is None and number is not None:
        raise click.ClickException(f"whose test? Type: curate inspect {dataset} ID --test {number}")
    with mistakes_explained():
        folder = DatasetFolder.opened(dataset)
        if id is None:
            print_lines(listed(folder, limit))
        else:
            print_lines(shown(folder, id) if number is None else one_test(folder, id, number))
