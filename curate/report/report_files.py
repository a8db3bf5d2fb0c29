"""The files report.json and report.html of a dataset folder."""

import json
from math import inf
from pathlib import Path

from curate.dataset.dataset import Dataset
from curate.dataset.output_folder import write_atomic
from curate.json_records import from_json
from curate.manifest import MANIFEST, Manifest
from curate.report.charts import HEIGHT, compute_layout
from curate.report.duplicate_section import DuplicateSection
from curate.report.html_kit import render
from curate.report.sections import build_chapters
from curate.report.statistics import Statistics, compute_report
from sandbox.concurrency.file_lock import FileLock

JSON, HTML = "report.json", "report.html"


def render_page(statistics: Statistics) -> str:
    """Return a self-contained HTML page with these statistics, without scripts."""
    return render(
        Path(__file__).with_name("page.html"),
        **statistics,
        chapters=build_chapters(statistics),
        compute_layout=compute_layout,
        height=HEIGHT,
    )


def write_report(folder: Path, manifest: Manifest, duplicates: DuplicateSection | None) -> None:
    """Write report.json and report.html for the tables in `folder`, which may lack its manifest.

    duplicates: the section on duplicates from the build; None if unknown

    Raises CurateError for a damaged file.
    """
    # The page is rendered from the JSON, so both files agree to the last digit.
    text = json.dumps(compute_report(Dataset(folder, manifest), duplicates), indent=1)
    html = render_page(json.loads(text))
    write_atomic(folder / JSON, text + "\n")
    write_atomic(folder / HTML, html)


def refresh_report(folder: Path) -> None:
    """Rewrite the report of a finished dataset. Raises CurateError for a damaged file."""
    manifest = Dataset.open(folder).manifest
    # Another process may add solve rates of another model.
    with FileLock(folder / MANIFEST, wait_seconds=inf):
        write_report(folder, manifest, load_duplicate_section(folder))


def load_duplicate_section(folder: Path) -> DuplicateSection | None:
    """Return the section on duplicates in a folder's report.json; None if this cannot be read."""
    try:
        section = json.loads((folder / JSON).read_text(encoding="utf-8"))["duplicates"]
        return from_json(DuplicateSection, section)
    except (OSError, ValueError, KeyError, TypeError):
        return None
