"""`curate export`"""

from pathlib import Path
from typing import Any

import click

from curate.commands.options import add_prompt_options, include_option
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra


@click.command("export")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--to", required=True, metavar="[jsonl|trl|verifiers|verl]", help="Format to write.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write to.")
@click.option(
    "--select",
    default="strongest",
    metavar="[strongest|longest|all]",
    show_default=True,
    help="Tests to export: the strongest by killed mutants, the longest by input, or all.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    help="Maximum number of tests per problem.  [default: 15; 10 for verl's own scorer]",
)
@include_option
@click.option(
    "--verl-data-source",
    metavar="NAME",
    default="taco",
    show_default=True,
    help="The data_source, by which verl chooses a scorer. verl itself scores apps, codecontests, codeforces and taco. "
    "Any other name requires rewards.verl, which scores all rows.",
)
@add_prompt_options
@click.option("--overwrite", is_flag=True, help="Replace an earlier export in the folder.")
def command(dataset: Path, to: str, out: Path, prompt: dict[str, Any], overwrite: bool, **others: Any) -> None:
    """Write DATASET in the format of a trainer or a tool.

    verl: Parquet for its loader and scorers. trl: a dataset for GRPOTrainer. verifiers: an environment package. jsonl:
    records of `curate judge`. Rows that a format cannot express are left out, counted, and listed in left_out.jsonl.
    """
    require_extra("data")
    from curate.dataset.location import resolve_dataset_folder
    from curate.errors import CurateError
    from curate.exports._export import ExportOptions, export, list_exclusion_reasons, list_targets
    from curate.prompt import read_prompt

    if to not in list_targets():
        raise click.BadParameter(f"{to!r} is not one of {', '.join(list_targets())}", param_hint="--to")
    with report_user_errors(CurateError, ValueError):
        options = ExportOptions(**others, prompt=read_prompt(prompt))
    with report_user_errors(CurateError, OSError), ProgressBar() as progress:
        manifest = export(resolve_dataset_folder(dataset), to, out, options, overwrite=overwrite, progress=progress)
    counts = manifest["counts"]
    click.echo(f"{counts['exported']} of {counts['rows']} problems in {out}")
    for reason, n in counts["left_out"].items():
        click.echo(f"  left out: {reason} {n} ({list_exclusion_reasons(to)[reason]})")
