"""`curate verify`"""

import sys
from pathlib import Path

import click

from curate.commands.printing import print_lines
from sandbox.commands.frame import ProgressBar, require, user_errors


@click.command("verify")
@click.argument("dataset", type=click.Path(path_type=Path))
def command(dataset: Path) -> None:
    """Check that the rows of DATASET are those that its manifest describes.

    Every row is read: the content hash is computed again, the counts are compared, ids must be unique and tests
    readable. The exit status is 1 if something is wrong.
    """
    require("data")
    from curate.dataset.folder import DatasetFolder
    from curate.dataset.integrity import check
    from curate.dataset.locate import dataset_folder
    from curate.errors import CurateError

    with user_errors(CurateError, PermissionError), ProgressBar(" rows") as progress:
        folder = DatasetFolder.opened(dataset_folder(dataset))
        found = check(folder, read_rows=True, report=progress)
    for table, n in found.n_rows.items():
        click.echo(f"{table:<10}{n} rows")
    print_lines(f"{name}: rewritten by another program, with the same rows" for name in found.rewritten)
    print_lines(map(str, found.faults))
    if found.faults:
        raise click.ClickException(f"{dataset} is not what its manifest describes.")
    click.echo(f"content hash {found.content_hash}, as in the manifest")
    sys.exit(0)
