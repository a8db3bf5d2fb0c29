"""`curate verify`"""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.commands.printing import print_lines
from sandbox.commands import options
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra

if TYPE_CHECKING:
    from sandbox import SandboxOptions

Command = Callable[..., Any]


def _add_hash_option(name: str, content: str) -> Callable[[Command], Command]:
    text = f"The published {name} hash, which covers {content}.  [default: compare only with the manifest]"
    return click.option(f"--{name}-hash", metavar="HEX", help=text)


@click.command("verify")
@click.argument("dataset")
@click.option(
    "--run",
    metavar="all|ROWS",
    help="Also execute the references of all rows, or of a random sample of this many.  [default: none]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random sample.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="With --run: folder of the report, audit.md and audit.json.  [default: audits/DATASET]",
)
@click.option("--overwrite", is_flag=True, help="Replace an audit of another source or sample in --out.")
@_add_hash_option("content", "the rows without measured columns")
@_add_hash_option("reward", "the columns on which rewards depend")
@_add_hash_option("manifest", "the whole manifest")
@options.add_sandbox_options
def command(
    dataset: str,
    run: str | None,
    seed: int,
    out: Path | None,
    overwrite: bool,
    sandbox: "SandboxOptions",
    **expected: str | None,
) -> None:
    """Compare the rows of DATASET with its manifest.

    Reads every row, recomputes the hashes, compares the counts, and checks that ids are unique and tests readable.
    Anyone can write a manifest, so also pass the hashes published with DATASET.

    With --run, the command also executes references on their tests. DATASET can then be raw data of a source, as in
    deepcoder=LOCATION: the command executes solutions, and writes the problems with a passing solution as a dataset to
    --out. The exit status is 1 after a difference or a failure.
    """
    require_extra("data")
    from curate.errors import CurateError
    from sandbox import SandboxError

    n_rows = _parse_sample_size(run)
    name, equals, location = dataset.partition("=")
    is_source = bool(equals and re.fullmatch(r"[\w-]+", name)) and not Path(dataset).exists()
    if is_source and run is None:
        raise click.ClickException(
            f"{dataset}: raw data has no manifest to compare with. Execute its solutions: "
            f"curate verify {dataset} --run 200, or --run all"
        )
    if run is None:
        with report_user_errors(CurateError, PermissionError):
            _compare_with_manifest(dataset, expected)
        return
    if any(expected.values()):
        raise click.UsageError("--run does not compare published hashes. Leave out --run or the hashes.")
    out = out or Path("audits") / (name if is_source else Path(dataset.partition("@")[0]).resolve().name)
    interrupted = f"judgements are saved in {out}; run the same command to continue"
    with (
        report_user_errors(CurateError, SandboxError, OSError, interrupt_message=interrupted),
        ProgressBar() as progress,
    ):
        from curate.audit import audit_dataset, audit_source, format_lines, write
        from curate.dataset.location import resolve_dataset_folder

        if is_source:
            audit = audit_source(
                name, location, out, sample=n_rows, seed=seed, sandbox=sandbox, overwrite=overwrite, progress=progress
            )
        else:
            folder = resolve_dataset_folder(dataset)
            audit = audit_dataset(
                folder, out, sample=n_rows, seed=seed, sandbox=sandbox, subject=dataset, progress=progress
            )
        write(audit, out)
    print_lines(format_lines(audit))
    click.echo(f"\nreport in {out / 'audit.md'} and {out / 'audit.json'}")
    sys.exit(0 if audit.ok else 1)


def _compare_with_manifest(dataset: str, expected: Mapping[str, str | None]) -> None:
    """Compare the dataset with its manifest and with published hashes. Raises ClickException for a difference.

    expected: values of the options, by their names
    """
    from curate.dataset.dataset import Dataset
    from curate.dataset.integrity import check_integrity
    from curate.dataset.output_folder import list_untracked_names

    with ProgressBar(" rows") as progress:
        opened = Dataset.open(dataset)
        integrity = check_integrity(opened, read_rows=True, progress=progress)
    for table, n in integrity.n_rows.items():
        click.echo(f"{table:<10}{n} rows")
    print_lines(f"{name}: rewritten by another program, with the same rows" for name in integrity.rewritten_files)
    print_lines(f"{name}: not part of the dataset, so not checked" for name in list_untracked_names(opened.path))
    print_lines(map(str, integrity.faults))
    if integrity.faults:
        raise click.ClickException(f"{dataset} differs from its manifest.")
    actual = {name: getattr(integrity, name) for name in ("manifest_hash", "reward_hash", "content_hash")}
    for name, value in actual.items():
        if value:
            recorded = getattr(opened.manifest, name)
            click.echo(f"{name.replace('_', ' ')} {value}, {'as' if recorded else 'not'} in the manifest")
    for name, value in expected.items():
        if value and value.lower() != actual[name]:
            raise click.ClickException(
                f"{dataset} is not the published dataset: its {name.replace('_', ' ')} is {actual[name]}, not {value}. "
                "Download it again."
            )


def _parse_sample_size(run: str | None) -> int | None:
    """Return the number of rows to execute; None for "all" or without --run."""
    if run in (None, "all"):
        return None
    assert run is not None
    if not run.isdecimal() or not int(run):
        raise click.BadParameter(f"{run!r} is neither all nor a number of rows", param_hint="--run")
    return int(run)
