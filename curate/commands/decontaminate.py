"""`curate decontaminate`"""

import sys
from pathlib import Path

import click

from curate.commands.options import add_against_option
from curate.commands.printing import print_contamination, print_hashes
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra


@click.command("decontaminate")
@click.argument("dataset")
@add_against_option(required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the decontaminated dataset.")
@click.option("--text", metavar="COLUMN", help="Column with the problem statements.  [default: found by its name]")
@click.option("--overwrite", is_flag=True, help="Replace an existing dataset in the folder.")
def command(dataset: str, against: tuple[str, ...], out: Path, text: str | None, overwrite: bool) -> None:
    """Copy DATASET without the rows that contain evaluation items.

    DATASET is a folder written by build-dataset, or any file or folder of Parquet or JSON Lines. Removed rows are in
    rejected/; all hits, with their scores and matching words, are in contamination/.
    """
    require_extra("data")
    from curate.decontamination.clean_copy import write_clean_copy
    from curate.errors import CurateError

    interrupted = f"{dataset} is unchanged; run the same command to start again"
    with report_user_errors(CurateError, OSError, interrupt_message=interrupted), ProgressBar() as progress:
        manifest = write_clean_copy(dataset, against, out, text=text, overwrite=overwrite, progress=progress)
    print_contamination(manifest.decontamination)
    click.echo(f"\n{manifest.n_kept} rows in {out}; every hit is in {out / 'contamination'}")
    print_hashes(manifest)
    sys.exit(0 if manifest.n_kept else 1)
