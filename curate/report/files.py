"""Write the report into a dataset folder, or write it again after something was added to the folder."""

import fcntl
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curate.dataset.folder import DatasetFolder
from curate.dataset.workspace import MANIFEST, write_whole
from curate.report.numbers import numbers
from curate.report.page import page

JSON, HTML = "report.json", "report.html"
SIDES = ("removed", "kept")  # of a pair


def write_report(folder: Path, manifest: dict[str, Any], pairs: Sequence[dict[str, Any]] = ()) -> None:
    """Write report.json and report.html for the tables in `folder`, whose manifest need not be there yet.

    pairs: what curate.report.duplicates.least_similar gave. Raises CurateError on a damaged file.
    """
    # Through JSON and back: the page shows what the file says, to the last digit.
    text = json.dumps(numbers(DatasetFolder(folder, manifest), pairs), indent=1)
    html = page(json.loads(text))
    write_whole(folder / JSON, text + "\n")
    # Half a surrogate pair can only come from the name of a file, and has no form in UTF-8.
    write_whole(folder / HTML, html.encode("utf-8", "backslashreplace").decode())


def refresh_report(folder: Path) -> None:
    """Write the report of a finished dataset again, with the pairs that are in it. Raises CurateError."""
    manifest = DatasetFolder.opened(folder).manifest
    with (folder / MANIFEST).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # another model may be at this point in another process
        write_report(folder, manifest, stored_pairs(folder))


def stored_pairs(folder: Path) -> list[dict[str, Any]]:
    """The pairs of statements that the report in a folder holds; none where there is no report that can be read."""
    try:
        pairs = json.loads((folder / JSON).read_text(encoding="utf-8"))["duplicates"]["least_similar"]
        return [
            {
                "jaccard": float(pair["jaccard"]),
                **{side: {name: str(pair[side][name]) for name in ("id", "title", "statement")} for side in SIDES},
            }
            for pair in pairs
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
