"""Define the command `curate evaluations`."""

import sys
from pathlib import Path

import click

from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from sandbox.commands.table import warn


@click.group("evaluations")
def command() -> None:
    """Download auxiliary data for evaluations."""


@command.group("fetch")
def fetch() -> None:
    """Fetch what an evaluation suite needs, once. Evaluations themselves do not use the network for it."""


@fetch.command("codeforces")
@click.option(
    "--contests", default="deepcoder", show_default=True, metavar="NUMBERS",
    help="Contests, such as 1971,1980-1990, or deepcoder: the 57 contests of DeepCoder's and CodeElo's problems.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path),
    help="Parquet file of the contests. Those that are in it are not fetched again.  [default: "
    "~/.cache/curate/codeforces-contests.parquet, where `curate evaluate` finds it]",
)  # fmt: skip
@click.option(
    "--base-url", default="https://codeforces.com/api", show_default=True, metavar="URL", help="Address of the API."
)
@click.option(
    "--pause", type=click.FloatRange(min=0), default=2.0, show_default=True, metavar="SECONDS",
    help="Least time between two requests; Codeforces asks for 2 seconds.",
)  # fmt: skip
def codeforces(contests: str, out: Path | None, base_url: str, pause: float) -> None:
    """Fetch standings and rating changes of Codeforces contests, so that models can be rated like participants.

    The file has no handles: only points, penalties and former ratings. After an interruption, the same command
    continues.
    """
    require_extra("data", ("pyarrow", "urllib3"))
    from curate.errors import CurateError
    from train.evaluation.codeforces.contests import default_path, parse_contest_ids
    from train.evaluation.codeforces.fetch import fetch_contests

    path = out or default_path()
    with (
        report_user_errors(
            CurateError, OSError, interrupt_message=f"the contests so far are in {path}; the same command continues"
        ),
        ProgressBar(" contests") as progress,
    ):
        done = fetch_contests(
            parse_contest_ids(contests), path, base_url=base_url, pause_seconds=pause, progress=progress
        )
    for id, why in done.failure_reasons.items():
        warn(f"contest {id}: {why}")
    click.echo(
        f"{path}: {done.n_fetched} fetched, {done.n_cached} already there"
        + (f", {len(done.failure_reasons)} could not be fetched" if done.failure_reasons else "")
    )
    sys.exit(1 if done.failure_reasons else 0)
