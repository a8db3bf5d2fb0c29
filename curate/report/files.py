"""Write the report into a dataset folder, or write it again after something was added to the folder."""

import fcntl
import json
from pathlib import Path

from curate.dataset.folder import DatasetFolder
from curate.dataset.workspace import write_whole
from curate.json_records import from_json
from curate.manifest import MANIFEST, Manifest
from curate.report.duplicates import Duplicates
from curate.report.numbers import numbers
from curate.report.page import page

JSON, HTML = "report.json", "report.html"


def write_report(folder: Path, manifest: Manifest, duplicates: Duplicates | None) -> None:
    """Write report.json and report.html for the tables in `folder`, which need not have a manifest yet.

    duplicates: the section that the build has computed, if it is known

    Raises CurateError if a file is damaged.
    """
    # The numbers go through JSON, so that the page shows what the file contains, to the last digit.
    text = json.dumps(numbers(DatasetFolder(folder, manifest), duplicates), indent=1)
    html = page(json.loads(text))
    write_whole(folder / JSON, text + "\n")
    # Half a surrogate pair can only come from the name of a file, and cannot be encoded in UTF-8.
    write_whole(folder / HTML, html.encode("utf-8", "backslashreplace").decode())


def refresh_report(folder: Path) -> None:
    """Write the report of a finished dataset again. Raises CurateError."""
    manifest = DatasetFolder.opened(folder).manifest
    with (folder / MANIFEST).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # another model may be at this point in another process
        write_report(folder, manifest, stored_duplicates(folder))


def stored_duplicates(folder: Path) -> Duplicates | None:
    """Return the section on duplicates from the report in a folder, or None if there is no readable report."""
    try:
        section = json.loads((folder / JSON).read_text(encoding="utf-8"))["duplicates"]
        return from_json(Duplicates, section)
    except (OSError, ValueError, KeyError, TypeError):
        return None
