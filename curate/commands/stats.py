"""`curate stats`"""

import json
from pathlib import Path

import click

from curate.commands.printing import print_lines
from sandbox.commands.console import report_user_errors, require_extra
from sandbox.commands.table import warn


@click.command("stats")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the numbers in the form of report.json.")
def command(dataset: Path, as_json: bool) -> None:
    """Print statistics of DATASET: the tables of its report."""
    require_extra("data")
    from curate.dataset.dataset import Dataset
    from curate.dataset.integrity import warnings
    from curate.dataset.location import resolve_dataset_folder
    from curate.errors import CurateError
    from curate.report.report_files import load_duplicate_section
    from curate.report.sections import compute_report
    from curate.report.terminal_tables import format_report

    with report_user_errors(CurateError, PermissionError):
        folder = Dataset.open(resolve_dataset_folder(dataset))
        for warning in warnings(folder):
            warn(warning)
        counted = compute_report(folder, load_duplicate_section(folder.path))
    if as_json:
        click.echo(json.dumps(counted, indent=1))
    else:
        print_lines(format_report(counted))
