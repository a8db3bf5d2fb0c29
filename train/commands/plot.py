"""Define the command `curate plot`."""

from datetime import datetime
from pathlib import Path

import click

from sandbox.commands.console import report_user_errors, require_extra


@click.command("plot")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The picture, a file that ends in .svg, .png or .pdf.  [default: curves.svg, timeline.svg or evaluations.svg "
    "in the first RUN, or RUN.by-month.svg beside it]",
)
@click.option(
    "--by",
    type=click.Choice(["month"]),
    help="Draw pass@1 by the month in which problems were published. RUN is then a file of `curate evaluate --out`.  "
    "[default: draw curves of runs]",
)
@click.option(
    "--released",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="With --by month, the day on which the model was released, as a line: earlier problems may be known to it.  "
    "[default: no line]",
)
@click.option(
    "--evaluations",
    is_flag=True,
    help="Draw pass@1 of each suite by step, and the paired difference from the first step, instead of the curves.",
)
@click.option("--timeline", is_flag=True, help="Draw when each part of a run was busy or idle, instead of the curves.")
def command(
    runs: tuple[str, ...],
    out: Path | None,
    by: str | None,
    released: datetime | None,
    evaluations: bool,
    timeline: bool,
) -> None:
    """Draw the curves of training runs, side by side: reward, pass@1, length, entropy, clipping.

    RUN is the folder of a run, finished or not, or LABEL=FOLDER. Runs with the same label, such as the seeds of one
    setting, become one curve, their mean, in a band from their lowest to their highest value. With --by month, RUN is
    the result of an evaluation, and the picture shows whether pass@1 falls for problems that were published after the
    model was released. The command needs matplotlib alone.
    """
    require_extra("plot")
    if released and not by:
        raise click.UsageError("--released needs --by month")
    if bool(by) + timeline + evaluations > 1:
        raise click.UsageError("give only one of --by month, --timeline and --evaluations")
    if by:
        _by_month(tuple(map(Path, runs)), out, released)
        return
    from curate.errors import CurateError
    from train.errors import NoRunError
    from train.run.plots import PlottedRun, plot_curves, plot_evaluations
    from train.run.plots import plot_timeline as draw_timeline

    labelled = [PlottedRun.parse(run) for run in runs]
    name, draw = ("curves", plot_curves)
    if timeline or evaluations:
        name, draw = ("timeline", draw_timeline) if timeline else ("evaluations", plot_evaluations)
    out = out or labelled[0].folder / f"{name}.svg"
    with report_user_errors(CurateError, NoRunError, OSError):
        draw(labelled, out)
    click.echo(out)


def _by_month(results: tuple[Path, ...], out: Path | None, released: datetime | None) -> None:
    from curate.errors import CurateError
    from train.errors import NoRunError
    from train.evaluation.results.result import read_result
    from train.run.plots import plot_by_month

    with report_user_errors(CurateError, NoRunError, OSError):
        out = out or results[0].with_name(f"{results[0].stem}.by-month.svg")
        plot_by_month([read_result(path) for path in results], out, released and released.date())
    click.echo(out)
