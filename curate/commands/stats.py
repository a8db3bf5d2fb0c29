"""`curate stats`"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curate.commands.printing import print_lines
from curate.text.printable import escape_unprintable
from sandbox.commands.console import report_user_errors, require_extra
from sandbox.commands.table import warn

if TYPE_CHECKING:
    from curate.report.statistics import Statistics


@click.command("stats")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the statistics as JSON, as in report.json.")
def command(dataset: Path, as_json: bool) -> None:
    """Print statistics of DATASET: the tables of its report."""
    require_extra("data")
    from curate.dataset.dataset import Dataset
    from curate.dataset.integrity import find_warnings
    from curate.dataset.location import resolve_dataset_folder
    from curate.errors import CurateError
    from curate.report.report_files import load_duplicate_section
    from curate.report.sections import build_chapters
    from curate.report.statistics import compute_report
    from curate.text.document import render_terminal

    with report_user_errors(CurateError, PermissionError):
        folder = Dataset.open(resolve_dataset_folder(dataset))
        for warning in find_warnings(folder):
            warn(warning)
        counted = compute_report(folder, load_duplicate_section(folder.path))
    if as_json:
        click.echo(json.dumps(counted, indent=1))
    else:
        sections = [
            section for chapter in build_chapters(counted) if chapter.id != "making" for section in chapter.sections
        ]
        print_lines([*_format_summary(counted), *render_terminal(sections)])


def _format_summary(statistics: "Statistics") -> Iterator[str]:
    sources, dataset = statistics["funnel"]["sources"].values(), statistics["dataset"]
    kept, read = (sum(count[name] for count in sources) for name in ("kept", "read"))
    yield f"{kept} of {read} problems were kept"
    for name in ("reward_hash", "content_hash"):
        if dataset[name]:
            yield f"{name.replace('_', ' ')} {dataset[name]}"
    yield from (f"Warning: {escape_unprintable(warning)}" for warning in dataset["warnings"])
