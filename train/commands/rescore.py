"""Define the command `curate rescore`."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from sandbox.commands import options
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from sandbox.commands.table import warn
from train.commands.options import print_cells
from train.evaluation.extraction import NAMES as EXTRACTIONS

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
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Result file with the new verdicts; the answers with their verdicts go to OUT.samples.jsonl. It may be R.json "
    "itself.  [default: only print what changed]",
)
@click.option(
    "--changed",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many of the problems that changed most to show.",
)
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
    from curate.dataset.output_folder import write_atomic
    from curate.errors import CurateError
    from sandbox import SandboxError
    from train.evaluation.rescore import load_result, rescore, samples_path
    from train.evaluation.result_file import verdict_dependencies, with_new_verdicts
    from train.evaluation.results.result import read_result

    to_continue = "the same command continues" if out else "give --out to continue"
    with report_user_errors(CurateError, SandboxError, OSError, interrupt_message=to_continue):
        reopened = load_result(read_result(result), suite, extraction)
        sandbox = with_packages(sandbox, reopened.provenance.location)
        with ProgressBar(" answers") as progress, sandbox.open() as box, TemporaryDirectory() as folder:
            found = rescore(
                reopened,
                box,
                samples_path(out or Path(folder) / result.name),
                dependencies=verdict_dependencies(sandbox.find_packages()),
                progress=progress,
            )
        if out:
            content = with_new_verdicts(json.loads(result.read_text(encoding="utf-8")), reopened, found.evaluation)
            write_atomic(out, json.dumps(content, indent=1) + "\n")
    _print(reopened, found, changed)


def _print(reopened: "LoadedResult", found: "RescoreResult", most: int) -> None:
    from train.evaluation.results.tables import breakdown, changed_problems

    before = reopened.result.outcomes
    print_cells(*breakdown(found.evaluation.outcomes))
    moved = [row for row in found.verdict_changes if row[0] != row[1]]
    click.echo(f"{sum(n for *_, n in moved)} of {sum(n for *_, n in found.verdict_changes)} verdicts changed")
    if moved:
        print_cells(["before", "now", "samples"], [[was, now, str(n)] for was, now, n in moved])
    problems = changed_problems(before, found.evaluation.outcomes)
    if problems and most:
        rest = f", the {most} with the largest change" if len(problems) > most else ""
        click.echo(f"{len(problems)} problem{'s' if len(problems) > 1 else ''} changed{rest}:")
        print_cells(["", "before", "now"], problems[:most])
    if found.missing_ids:
        warn(
            f"{reopened.provenance.location} does not have {len(found.missing_ids)} of the problems; they are left out"
        )
    if found.evaluation.n_unscored:
        warn(f"{found.evaluation.n_unscored} samples have no verdict and are left out")
