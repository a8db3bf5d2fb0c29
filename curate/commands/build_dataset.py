"""`curate build-dataset`"""

import sys
from pathlib import Path
from typing import Any

import click

from curate.commands.against import against
from curate.commands.counts import print_contamination, print_funnel
from curate.commands.extras import require_data
from sandbox.commands import options
from sandbox.commands.frame import Progress


@click.command("build-dataset")
@click.option(
    "--source",
    "sources",
    multiple=True,
    required=True,
    metavar="NAME=LOCATION",
    help="A source (see `curate sources`) and its file, folder, Hub id or Hub id@revision; options follow, as in "
    "'livecodebench=PATH?release=v5&from=2024-08-01', or stand in a TOML file beside the location. Repeatable; of two "
    "equally good duplicates the one of the source given first stays.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the dataset.")
@click.option(
    "--min-tests",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Distinct tests a problem needs.",
)
@click.option(
    "--tries",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Solutions to execute before a problem is given up.",
)
@click.option(
    "--cross-checks",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Further solutions to execute on all tests of a verified problem: do they agree?",
)
@click.option(
    "--mutants",
    type=click.IntRange(min=0),
    default=24,
    show_default=True,
    help="Wrong programs to make of each reference, to see how many its tests reject. 0 leaves it out.",
)
@click.option(
    "--min-test-strength",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Least share of these wrong programs that the tests of a problem must reject.  [default: any]",
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
    help="Problems of sources that publish no solutions.",
)
@click.option(
    "--dedup",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.7,
    show_default=True,
    help="Least Jaccard similarity of near-duplicates.",
)
@against(required=False)
@click.option("--limit", type=click.IntRange(min=1), help="Read only the first N problems of each source.")
@options.workers
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the programs' random and hash order.")
@options.isolation
@options.ray
@click.option("--dry-run", is_flag=True, help="Read and filter only; execute and write nothing.")
@click.option("--overwrite", is_flag=True, help="Replace another dataset in the folder.")
def command(
    sources: tuple[str, ...],
    out: Path,
    against: tuple[str, ...],
    workers: int | None,
    isolation: str,
    ray: str | None,
    dry_run: bool,
    overwrite: bool,
    **chosen: Any,
) -> None:
    """Turn raw problems into a verified, deduplicated dataset.

    Work is saved as it goes: after an interruption the same command continues.
    """
    require_data()
    from curate.errors import CurateError
    from curate.pipeline import Options, build, survey

    locations = [_name_and_location(source) for source in sources]
    try:
        options = Options(**chosen)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    progress = Progress()
    try:
        if dry_run:
            counts = survey(locations, options, against=against, report=progress)
            progress.close()
            print_funnel(counts)
            return
        manifest = build(
            locations,
            out,
            options,
            against=against,
            workers=workers,
            isolation=isolation,
            ray=ray,
            overwrite=overwrite,
            report=progress,
        )
    except (CurateError, OSError) as error:  # OSError: an input or the folder is not ours to read or write
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; work is saved in {out}, the same command continues") from None
    finally:
        progress.close()
    print_funnel(manifest["counts"])
    if manifest["decontamination"]:
        click.echo()
        print_contamination(manifest["decontamination"])
    kept = sum(count["kept"] for count in manifest["counts"].values())
    click.echo(f"\n{kept} problems in {out}")
    if not kept:
        click.echo("Error: no problem survived; the reasons are above and in the config `rejected`.", err=True)
    click.echo(f"content hash {manifest['content_hash']}")
    sys.exit(0 if kept else 1)


def _name_and_location(source: str) -> tuple[str, str]:
    name, equals, location = source.partition("=")
    if not (name and equals and location):
        raise click.BadParameter(f"{source!r} is not NAME=LOCATION, such as taco=data/taco", param_hint="--source")
    return name, location
