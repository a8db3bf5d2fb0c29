"""`curate diff`"""

import sys
from pathlib import Path

import click

from curate.commands.printing import print_lines
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from sandbox.commands.table import warn


@click.command("diff")
@click.argument("old", metavar="A", type=click.Path(path_type=Path))
@click.argument("new", metavar="B", type=click.Path(path_type=Path))
def command(old: Path, new: Path) -> None:
    """Show what changed between the datasets A and B.

    Ignores measured columns, such as times. The exit status is 0 if both have the same content, 1 if not, and 2 if they
    cannot be compared.
    """
    require_extra("data")
    from curate.dataset.dataset import Dataset
    from curate.dataset.diff import diff_datasets, format_lines
    from curate.dataset.location import resolve_dataset_folder
    from curate.errors import CurateError

    # As in diff(1), errors have the exit status 2.
    with report_user_errors(CurateError, PermissionError, exit_code=2), ProgressBar() as progress:
        before, after = (Dataset.open(resolve_dataset_folder(dataset)) for dataset in (old, new))
        differences = diff_datasets(before, after, progress=progress)
    for message in differences.integrity_messages:
        warn(message)
    print_lines(format_lines(differences))
    sys.exit(0 if differences.same_content else 1)
