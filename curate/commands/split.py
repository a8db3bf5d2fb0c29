"""`curate split`"""

from pathlib import Path

import click

from curate.commands.printing import print_hashes
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra


class _PartSize(click.ParamType[float | int]):
    name = "SHARE|ROWS"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | int:
        from curate.operations.splitting import parse_size

        try:
            return parse_size(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither a share between 0 and 1, such as 0.1, nor a number of rows", param, ctx)


@click.command("split")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Output folder; each part gets a subfolder."
)
@click.option(
    "--validation",
    type=_PartSize(),
    help="Size of the part validation: a share of the rows, such as 0.1, or a number of rows.  [default: no such part]",
)
@click.option("--test", type=_PartSize(), help="Size of the part test, in the same form.  [default: no such part]")
@click.option(
    "--similarity",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.5,
    show_default=True,
    help="Minimum Jaccard similarity of word 5-grams at which two problems must be in the same part.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random assignment to parts.")
@click.option("--overwrite", is_flag=True, help="Replace an existing split in the folder.")
def command(
    dataset: Path,
    out: Path,
    validation: float | int | None,
    test: float | int | None,
    similarity: float,
    seed: int,
    overwrite: bool,
) -> None:
    """Split DATASET into parts for training and validation without near-duplicates across the parts.

    OUT/train, OUT/validation and OUT/test are separate datasets. Problems with similar statements, the same text or
    the same URL are always in the same part. Each source has the same share of every part, as far as possible. The
    order of the rows has no effect.
    """
    require_extra("data")
    from curate.errors import CurateError
    from curate.operations.splitting import split
    from curate.recipe import SplitConfig

    options = SplitConfig(validation, test, similarity, seed)
    if not options.sizes:
        raise click.UsageError("pass --validation, --test or both, such as --validation 0.1")
    interrupted = f"{dataset} is unchanged; run the same command to start again"
    with report_user_errors(CurateError, OSError, interrupt_message=interrupted), ProgressBar() as progress:
        manifests = split(dataset, out, options, overwrite=overwrite, progress=progress)
    for name, manifest in manifests.items():
        sources = ", ".join(f"{source} {count.n_kept}" for source, count in manifest.counts.items() if count.n_kept)
        click.echo(f"{manifest.n_kept} problems in {out / name} ({sources})")
        print_hashes(manifest)
