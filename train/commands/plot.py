"""`curate plot`"""

from importlib.util import find_spec
from pathlib import Path

import click


@click.command("plot")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File, .svg, .png or .pdf.  [default: in the first RUN]",
)
@click.option("--timeline", is_flag=True, help="Draw who was idle when instead of the curves.")
def command(runs: tuple[str, ...], out: Path | None, timeline: bool) -> None:
    """Draw the curves of training runs, side by side: reward, pass@1, length, entropy, clipping.

    RUN is the folder of a run, finished or not, or LABEL=FOLDER; runs of one label share a colour.
    """
    if find_spec("matplotlib") is None:
        raise click.ClickException("matplotlib not installed. Type: pip install 'curate-code[train]'")
    from train.errors import NoRunError
    from train.run import plot

    found = [plot.Run.parse(run) for run in runs]
    out = out or found[0].folder / ("timeline.svg" if timeline else "curves.svg")
    try:
        (plot.timeline if timeline else plot.curves)(found, out)
    except (NoRunError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(out)
