"""`curate export`"""

from pathlib import Path
from typing import Any

import click

from curate.commands.extras import require_data
from sandbox.commands.frame import Progress


@click.command("export")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--to", required=True, metavar="[jsonl|trl|verifiers|verl]", help="The form to write.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write to.")
@click.option(
    "--select",
    default="strongest",
    metavar="[strongest|longest|all]",
    show_default=True,
    help="Tests that rewards run: those that catch most wrong programs, those with the longest inputs, or all.",
)
@click.option(
    "--budget", type=click.IntRange(min=1), help="Tests at most.  [default: 15; 10 where verl's own scorer runs them]"
)
@click.option("--unverified", is_flag=True, help="Also problems without a reference that passed the tests.")
@click.option(
    "--verl-data-source",
    metavar="NAME",
    default="taco",
    show_default=True,
    help="By it verl chooses its scorer. apps, codecontests, codeforces and taco go to its own; any other needs "
    "rewards.verl, which takes every row.",
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier export in the folder.")
def command(dataset: Path, to: str, out: Path, overwrite: bool, **chosen: Any) -> None:
    """Write DATASET in the form of a trainer or a tool.

    verl: Parquet for its loader and scorers. trl: a dataset for GRPOTrainer. verifiers: an environment package. jsonl:
    records of `curate judge`. Rows that a form cannot express are left out, counted, and listed in left_out.jsonl.
    """
    require_data()
    from curate.errors import CurateError
    from curate.exports._export import export, reasons, target_names
    from curate.exports._options import ExportOptions

    if to not in target_names():
        raise click.BadParameter(f"{to!r} is not one of {', '.join(target_names())}", param_hint="--to")
    try:
        options = ExportOptions(**chosen)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    progress = Progress()
    try:
        manifest = export(dataset, to, out, options, overwrite=overwrite, report=progress)
    except (CurateError, OSError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        progress.close()
    counts = manifest["counts"]
    click.echo(f"{counts['exported']} of {counts['rows']} problems in {out}")
    for reason, n in counts["left_out"].items():
        click.echo(f"  left out: {reason} {n} ({reasons(to)[reason]})")
