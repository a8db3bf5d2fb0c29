"""Define the command `curate rescore`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from sandbox.commands import options
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from sandbox.commands.table import warn
from train.commands.options import changed_option, print_cells, print_changed_problems
from train.evaluation.judges.judge import RULES as EXTRACTIONS

if TYPE_CHECKING:
    from sandbox import SandboxOptions
    from train.evaluation.rescore import LoadedResult, RescoreResult


@click.command("rescore")
@click.argument("result", metavar="R.json", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--suite",
    metavar="NAME=PATH",
    help="Judge by the tests of these rows, which have the same problems.  [default: the rows of the result]",
)
@click.option(
    "--extraction",
    type=click.Choice(EXTRACTIONS),
    help="How the program is found in an answer.  [default: as in the result]",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path),
    help="Result file with the new verdicts; the answers with their verdicts go to OUT.samples.jsonl. It may be R.json "
    "itself.  [default: only print what changed]",
)  # fmt: skip
@changed_option
@options.sandbox_options
def command(
    result: Path, suite: str | None, extraction: str | None, out: Path | None, changed: int, sandbox: "SandboxOptions"
) -> None:
    """Rejudge the saved completions of an evaluation with other tests or extraction, without sampling.

    R.json is a file of `curate evaluate --out`, with R.json.samples.jsonl beside it. The command prints which verdicts
    changed. R.json is not changed unless --out names it.
    """
    require_extra("data")
    from curate.dataset.needed_packages import with_packages
    from curate.errors import CurateError
    from sandbox import SandboxError
    from train.evaluation.rescore import load_result, rescore, samples_path
    from train.evaluation.result_metadata import verdict_dependencies
    from train.evaluation.results.result import read_result

    to_continue = "the same command continues" if out else "give --out to continue"
    with report_user_errors(CurateError, SandboxError, OSError, interrupt_message=to_continue):
        reopened = load_result(read_result(result), suite, extraction)
        sandbox = with_packages(sandbox, reopened.result.location)
        with ProgressBar(" answers") as progress, sandbox.open() as box, TemporaryDirectory() as folder:
            found = rescore(
                reopened,
                box,
                samples_path(out or Path(folder) / result.name),
                dependencies=verdict_dependencies(sandbox.find_packages()),
                progress=progress,
            )
        if out:
            found.result.write(out)
    _print(reopened, found, changed)


def _print(reopened: "LoadedResult", found: "RescoreResult", most: int) -> None:
    from train.evaluation.results.tables import breakdown, changed_problems
    from train.evaluation.statistics.outcomes import summarize

    before = reopened.result.outcomes
    print_cells(*breakdown(found.result.outcomes))
    moved = [row for row in found.verdict_changes if row[0] != row[1]]
    click.echo(f"{sum(n for *_, n in moved)} of {sum(n for *_, n in found.verdict_changes)} verdicts changed")
    if moved:
        print_cells(["before", "now", "samples"], [[was, now, str(n)] for was, now, n in moved])
    print_changed_problems("before", "now", changed_problems(before, found.result.outcomes), most)
    if found.missing_ids:
        warn(f"{reopened.result.location} does not have {len(found.missing_ids)} of the problems; they are left out")
    if n_unknown := summarize(found.result.outcomes).n_no_verdict:
        warn(f"{n_unknown} samples have no verdict and are left out")
