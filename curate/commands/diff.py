"""`curate diff`"""

import sys
from pathlib import Path

import click

from curate.commands.extras import require_data
from curate.commands.reading import mistakes_explained, print_lines
from sandbox.commands.frame import Progress


@click.command("diff")
@click.argument("old", metavar="A", type=click.Path(path_type=Path))
@click.argument("new", metavar="B", type=click.Path(path_type=Path))
def command(old: Path, new: Path) -> None:
    """Say what changed between the datasets A and B.

    Columns that are measured do not count. The exit status is 0 if both have the same content, 1 if not, and 2 if
    they cannot be compared.
    """
    require_data()
    from curate.dataset.diff import changes
    from curate.dataset.diff_text import lines
    from curate.dataset.folder import DatasetFolder

    progress = Progress()
    try:
        with mistakes_explained(_Incomparable):
            found = changes(DatasetFolder.opened(old), DatasetFolder.opened(new), report=progress)
    finally:
        progress.close()
    print_lines(lines(found))
    sys.exit(0 if found.same else 1)


class _Incomparable(click.ClickException):
    exit_code = 2  # as diff has it: 1 means that the two differ
