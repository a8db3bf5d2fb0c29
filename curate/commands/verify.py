"""`curate verify`"""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curate.commands.printing import print_lines
from sandbox.commands import options
from sandbox.commands.frame import ProgressBar, require, user_errors

if TYPE_CHECKING:
    from sandbox import SandboxOptions


@click.command("verify")
@click.argument("dataset")
@click.option(
    "--run",
    metavar="all|ROWS",
    help="Also execute references: of all rows, or of this many, which --seed chooses.  [default: none]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the choice of rows.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="With --run: folder of the report audit.md and audit.json.  [default: audits/ and the dataset's name]",
)
@click.option("--overwrite", is_flag=True, help="Replace the audit of another source or sample in the folder --out.")
@options.sandbox
def command(
    dataset: str, run: str | None, seed: int, out: Path | None, overwrite: bool, sandbox: "SandboxOptions"
) -> None:
    """Check that the rows of DATASET are those that its manifest describes.

    Every row is read, the content hash is computed again, and the counts are compared. Ids must be unique, and tests
    readable. With --run, references are also executed on their tests. DATASET can then also be raw data of a source, as
    in deepcoder=LOCATION: solutions are executed, and the folder --out becomes a dataset of the rows that pass, with
    its report. The exit status is 1 if something is wrong.
    """
    require("data")
    from curate.errors import CurateError
    from sandbox import SandboxError

    n_rows = _number(run)
    name, equals, location = dataset.partition("=")
    is_source = bool(equals and re.fullmatch(r"[\w-]+", name)) and not Path(dataset).exists()
    if is_source and run is None:
        raise click.ClickException(
            f"{dataset}: raw data has no manifest to compare it with. Execute its solutions: "
            f"curate verify {dataset} --run 200, or --run all"
        )
    if run is None:
        with user_errors(CurateError, PermissionError):
            _check(dataset)
        return
    out = out or Path("audits") / (name if is_source else Path(dataset.partition("@")[0]).resolve().name)
    to_continue = f"what was judged is in {out}; the same command continues"
    with user_errors(CurateError, SandboxError, OSError, interrupted=to_continue), ProgressBar() as progress:
        from curate.audit.references import audit_references
        from curate.audit.report import lines, write
        from curate.audit.source import audit_source
        from curate.dataset.locate import dataset_folder

        if is_source:
            audit = audit_source(
                name, location, out, sample=n_rows, seed=seed, sandbox=sandbox, overwrite=overwrite, report=progress
            )
        else:
            folder = dataset_folder(dataset)
            audit = audit_references(
                folder, out, sample=n_rows, seed=seed, sandbox=sandbox, subject=dataset, report=progress
            )
        write(audit, out)
    print_lines(lines(audit))
    click.echo(f"\nreport in {out / 'audit.md'} and {out / 'audit.json'}")
    sys.exit(0 if audit.ok else 1)


def _check(dataset: str) -> None:
    """Compare the dataset with its manifest, and end the command with an error if they differ."""
    from curate.dataset.folder import DatasetFolder
    from curate.dataset.integrity import check
    from curate.dataset.locate import dataset_folder

    with ProgressBar(" rows") as progress:
        folder = DatasetFolder.opened(dataset_folder(dataset))
        integrity = check(folder, read_rows=True, report=progress)
    for table, n in integrity.n_rows.items():
        click.echo(f"{table:<10}{n} rows")
    print_lines(f"{name}: rewritten by another program, with the same rows" for name in integrity.rewritten)
    print_lines(map(str, integrity.faults))
    if integrity.faults:
        raise click.ClickException(f"{dataset} is not what its manifest describes.")
    click.echo(f"content hash {integrity.content_hash}, as in the manifest")


def _number(run: str | None) -> int | None:
    """Return the number of rows to execute; None for all of them."""
    if run in (None, "all"):
        return None
    assert run is not None
    if not run.isdecimal() or not int(run):
        raise click.BadParameter(f"{run!r} is neither all nor a number of rows", param_hint="--run")
    return int(run)
