"""`curate filter`"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curate.commands.printing import print_hashes
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra

if TYPE_CHECKING:
    from curate.operations.row_filter import FilterResult


@click.command("filter")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option(
    "--where",
    multiple=True,
    required=True,
    metavar="CONDITION",
    help="A condition on columns, such as 'verified and n_tests >= 8' or 'solve_rate(\"MODEL\") <= 0.5'. "
    "A row stays if the condition is true. Repeatable: all conditions must be true.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Output folder; required except with --dry-run.  [default: none]"
)
@click.option("--dry-run", is_flag=True, help="Count the rows without writing a dataset.")
@click.option("--overwrite", is_flag=True, help="Replace an existing dataset in the folder.")
def command(dataset: Path, where: tuple[str, ...], out: Path | None, dry_run: bool, overwrite: bool) -> None:
    """Copy the rows of DATASET that fulfill all conditions.

    A condition names columns and uses comparisons, arithmetic, in, between, is null, and, or, not, and the functions
    len, words, lower, matches, solve_rate and samples. If a condition of a row is false or null, the row is in
    rejected/, with this condition.
    """
    require_extra("data")
    from curate.errors import CurateError
    from curate.operations.row_filter import preview_filter, write_filtered

    if (out is None) != dry_run:
        raise click.UsageError("pass either --out, the folder to write to, or --dry-run")
    interrupted = f"{dataset} is unchanged; run the same command to start again"
    with report_user_errors(CurateError, OSError, interrupt_message=interrupted), ProgressBar() as progress:
        if out is None:
            result = preview_filter(dataset, where, progress=progress)
        else:
            manifest, result = write_filtered(dataset, where, out, overwrite=overwrite, progress=progress)
    _print_counts(result)
    if out is None:
        return
    click.echo(f"\n{manifest.n_kept} problems in {out}; the others are in the dataset config `rejected`")
    print_hashes(manifest)
    sys.exit(0 if manifest.n_kept else 1)


def _print_counts(result: "FilterResult") -> None:
    """Print for each condition the numbers of rows where it is true, false and null."""
    click.echo(f"{'true':>8}{'false':>8}{'unknown':>9}  condition")
    for text, n in result.condition_counts.items():
        click.echo(f"{n.get(True, 0):>8}{n.get(False, 0):>8}{n.get(None, 0):>9}  {' '.join(text.split())}")
    click.echo(f"{result.n_rows - len(result.rejections)} of {result.n_rows} rows remain")
