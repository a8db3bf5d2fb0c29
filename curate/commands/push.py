"""`curate push`"""

from pathlib import Path

import click

from curate.trust import ALTERED, TrustPolicy
from sandbox.commands.console import report_user_errors, require_extra


@click.command("push")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.argument("repo_id")
@click.option(
    "--private/--public",
    default=True,
    show_default=True,
    help="Visibility if the repository is created; existing repositories keep theirs.",
)
@click.option("--revision", default="main", show_default=True, help="Branch to commit to.")
@click.option(
    "--include",
    multiple=True,
    type=click.Choice([ALTERED]),
    help="Send an altered dataset, whose rows differ from its manifest.  [default: refuse it]",
)
@click.option("--dry-run", is_flag=True, help="List the files to send, without network access.")
def command(dataset: Path, repo_id: str, private: bool, revision: str, include: tuple[str, ...], dry_run: bool) -> None:
    """Commit DATASET to the Hub as the dataset REPO_ID, such as owner/name.

    One commit has all tables, the card, the manifest and the report.
    """
    require_extra("data")
    from curate.dataset.location import resolve_dataset_folder
    from curate.dataset.push import list_files_to_push, push
    from curate.errors import CurateError

    with report_user_errors(CurateError, OSError):
        folder = resolve_dataset_folder(dataset)
        files = list_files_to_push(folder, repo_id, TrustPolicy.from_choices(include))
        for name, size in files.items():
            click.echo(f"{size:>14,}  {name}")
        click.echo(f"{sum(files.values()):>14,}  bytes in {len(files)} files")
        where = f"dataset {repo_id}, revision {revision}"
        if dry_run:
            kind = "private" if private else "public"
            click.echo(f"nothing was sent; the target is {where}, which would be created as {kind} if missing")
            return
        click.echo(f"sending to {where}")
        click.echo(f"committed: {push(folder, repo_id, files, private=private, revision=revision)}")
