"""`curate stats`"""

import json
from pathlib import Path

import click

from curate.commands.extras import require_data
from curate.commands.reading import mistakes_explained, print_lines


@click.command("stats")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as report.json has them.")
def command(dataset: Path, as_json: bool) -> None:
    """Count what is in DATASET: the tables of its report."""
    require_data()
    from curate.dataset.folder import DatasetFolder
    from curate.report.files import stored_pairs
    from curate.report.lines import lines
    from curate.report.numbers import numbers

    with mistakes_explained():
        counted = numbers(DatasetFolder.opened(dataset), stored_pairs(dataset))
    if as_json:
        click.echo(json.dumps(counted, indent=1))
    else:
        print_lines(lines(counted))
