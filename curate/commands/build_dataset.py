"""`curate build-dataset`"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.commands.against import against
from curate.commands.counts import print_contamination, print_funnel
from sandbox.commands import options
from sandbox.commands.frame import ProgressBar, require, user_errors

if TYPE_CHECKING:
    from sandbox import SandboxOptions


@click.command("build-dataset")
@click.option(
    "--source",
    "sources",
    multiple=True,
    required=True,
    metavar="NAME=LOCATION",
    help="A source (see `curate sources`) and its file, folder, Hub id or Hub id@revision; options follow, as in "
    "'livecodebench=PATH?release=v5&from=2024-08-01', or stand in a TOML file beside the location. Repeatable; of two "
    "equally good duplicates, the one from the source given first stays.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write the dataset to.")
@click.option(
    "--min-tests",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Minimum number of distinct tests per problem. 0 also keeps problems without tests, which cannot be verified.",
)
@click.option(
    "--tries",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Solutions to execute before giving up on a problem.",
)
@click.option(
    "--cross-checks",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Further solutions to execute on all tests of a verified problem, to see whether they agree.",
)
@click.option(
    "--mutants",
    type=click.IntRange(min=0),
    default=24,
    show_default=True,
    help="Wrong programs to make from each reference, to see how many its tests reject. 0 skips this.",
)
@click.option(
    "--min-test-strength",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Minimum share of these wrong programs that the tests of a problem must reject.  [default: any]",
)
@click.option(
    "--reference-language",
    "reference_languages",
    multiple=True,
    default=["python"],
    show_default=True,
    metavar="NAME",
    help="Language of solutions to execute (python, cpp). Repeatable; Python ones are tried first.",
)
@click.option(
    "--no-reference",
    type=click.Choice(["keep", "drop"]),
    default="keep",
    show_default=True,
    help="What to do with problems from sources that publish no solutions.",
)
@click.option(
    "--dedup",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.7,
    show_default=True,
    help="Minimum Jaccard similarity of near-duplicates.",
)
@against(required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Read only the first N problems of each source.  [default: all]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the programs' random numbers and hashes.")
@options.sandbox
@click.option("--dry-run", is_flag=True, help="Read and filter only; execute and write nothing.")
@click.option("--overwrite", is_flag=True, help="Replace an existing dataset in the folder.")
def command(
    sources: tuple[str, ...],
    out: Path,
    against: tuple[str, ...],
    sandbox: "SandboxOptions",
    dry_run: bool,
    overwrite: bool,
    **chosen: Any,
) -> None:
    """Turn raw problems into a verified, deduplicated dataset.

    Work is saved as it goes: after an interruption the same command continues.
    """
    require("data")
    from curate.errors import CurateError
    from curate.pipeline import Options, build, survey

    locations = [_name_and_location(source) for source in sources]
    with user_errors(ValueError):
        options = Options(**chosen)
    interrupted = f"work is saved in {out}, the same command continues"
    # OSError: an input cannot be read, or the folder cannot be written.
    with user_errors(CurateError, OSError, interrupted=interrupted), ProgressBar() as progress:
        if dry_run:
            counts = survey(locations, options, against=against, report=progress)
        else:
            manifest = build(
                locations,
                out,
                options,
                against=against,
                sandbox=sandbox,
                overwrite=overwrite,
                report=progress,
            )
    if dry_run:
        print_funnel(counts)
        return
    print_funnel(manifest.counts)
    if manifest.decontamination:
        click.echo()
        print_contamination(manifest.decontamination)
    click.echo(f"\n{manifest.n_kept} problems in {out}")
    if not manifest.n_kept:
        click.echo("Error: no problem survived; the reasons are above and in the config `rejected`.", err=True)
    click.echo(f"content hash {manifest.content_hash}")
    sys.exit(0 if manifest.n_kept else 1)


def _name_and_location(source: str) -> tuple[str, str]:
    name, equals, location = source.partition("=")
    if not (name and equals and location):
        raise click.BadParameter(f"{source!r} is not NAME=LOCATION, such as taco=data/taco", param_hint="--source")
    return name, location
