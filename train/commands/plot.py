"""Define the command `curate plot`."""

from pathlib import Path

import click

from sandbox.commands.frame import require, user_errors


@click.command("plot")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The picture, a file that ends in .svg, .png or .pdf.  [default: curves.svg or timeline.svg in the first RUN]",
)
@click.option("--timeline", is_flag=True, help="Draw when each part of a run was busy or idle, instead of the curves.")
def command(runs: tuple[str, ...], out: Path | None, timeline: bool) -> None:
    """Draw the curves of training runs, side by side: reward, pass@1, length, entropy, clipping.

    RUN is the folder of a run, finished or not, or LABEL=FOLDER. Runs with the same label, such as the seeds of one
    setting, become one curve, their mean, in a band from their lowest to their highest value. The command needs
    matplotlib alone: pip install 'curate-code[plot]'.
    """
    require("plot")
    from train.errors import NoRunError
    from train.run.picture import Run
    from train.run.plot import curves
    from train.run.plot_timeline import timeline as draw_timeline

    labelled = [Run.parse(run) for run in runs]
    out = out or labelled[0].folder / ("timeline.svg" if timeline else "curves.svg")
    with user_errors(NoRunError, OSError):
        (draw_timeline if timeline else curves)(labelled, out)
    click.echo(out)
