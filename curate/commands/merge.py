"""`curate merge`"""

import sys
from pathlib import Path

import click

from curate.commands.options import dedup_option
from curate.commands.printing import print_contamination, print_funnel, print_hashes, read_rejected_rows
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from sandbox.commands.table import warn


@click.command("merge")
@click.argument("datasets", nargs=-1, required=True, metavar="DATASET...", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the merged dataset.")
@dedup_option
@click.option("--overwrite", is_flag=True, help="Replace an existing dataset in the folder.")
def command(datasets: tuple[Path, ...], out: Path, dedup: float, overwrite: bool) -> None:
    """Merge two or more DATASETs into one, without duplicates across them.

    Of several copies of a problem, a verified one stays, then the one with the most tests, then the one from the first
    dataset. The result counts as compared with an evaluation set only if every dataset was compared with it.
    """
    require_extra("data")
    from curate.errors import CurateError
    from curate.operations.merging import find_missing_sets, merge

    interrupted = "the datasets are unchanged; run the same command to start again"
    with report_user_errors(CurateError, OSError, interrupt_message=interrupted), ProgressBar() as progress:
        missing = find_missing_sets(datasets)
        manifest = merge(datasets, out, dedup=dedup, overwrite=overwrite, progress=progress)
    print_funnel(manifest.counts, read_rejected_rows(out))
    if manifest.decontamination:
        click.echo()
        print_contamination(manifest.decontamination)
    for name, locations in missing.items():
        listed = " and ".join(locations)
        warn(f"the result does not count as compared with {name}: {listed} may contain its items")
    click.echo()
    for dataset in manifest.merged:
        click.echo(f"{dataset.n_kept} of {dataset.rows} problems kept from {dataset.location}")
    click.echo(f"{manifest.n_kept} problems in {out}")
    print_hashes(manifest)
    sys.exit(0 if manifest.n_kept else 1)
