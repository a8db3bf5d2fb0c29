"""Define the command `curate plot`."""

from datetime import datetime
from pathlib import Path

import click

from sandbox.commands.console import report_user_errors, require_extra


@click.command("plot")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path),
    help="The picture, a file that ends in .svg, .png or .pdf.  [default: curves.svg, timeline.svg or evaluations.svg "
    "in the first RUN, or RUN.by-month.svg beside it]",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(["month"]),
    help="Draw pass@1 by the month in which problems were published. RUN is then a file of `curate evaluate --out`.  "
    "[default: draw curves of runs]",
)  # fmt: skip
@click.option(
    "--released", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE",
    help="With --by month, the day on which the model was released, as a line: earlier problems may be known to it.  "
    "[default: no line]",
)  # fmt: skip
@click.option(
    "--evaluations", is_flag=True,
    help="Draw pass@1 of each suite by step, and the paired difference from the first step, instead of the curves.",
)  # fmt: skip
@click.option("--timeline", is_flag=True, help="Draw when each part of a run was busy or idle, instead of the curves.")
def command(
    runs: tuple[str, ...], out: Path | None, by: str | None, released: datetime | None, evaluations: bool,
    timeline: bool,
) -> None:  # fmt: skip
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
    from curate.errors import CurateError
    from train.errors import NoRunError
    from train.evaluation.results.result import read_result
    from train.run import plots

    with report_user_errors(CurateError, NoRunError, OSError):
        if by:
            first = Path(runs[0])
            out = out or first.with_name(f"{first.stem}.by-month.svg")
            plots.plot_by_month([read_result(Path(run)) for run in runs], out, released and released.date())
        else:
            labelled = [plots.PlottedRun.parse(run) for run in runs]
            name = "timeline" if timeline else "evaluations" if evaluations else "curves"
            draw = {"timeline": plots.plot_timeline, "evaluations": plots.plot_evaluations, "curves": plots.plot_curves}
            out = out or labelled[0].folder / f"{name}.svg"
            draw[name](labelled, out)
    click.echo(out)
