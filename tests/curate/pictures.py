"""Make the pictures of the report that the documentation shows, from the report of the sample dataset.

    PYTHONPATH=.:tests/curate python tests/curate/pictures.py demo docs/guides

The first argument is the folder that `make demo` builds, the second one is where the pictures go.
"""

import sys
from pathlib import Path

from browser import Browser, find

_WIDTH, _HEIGHT = 1160, 700
# The part of the page that a picture shows: from the top of one element to the bottom of another.
PICTURES = {
    "report": ("header", "#funnel"),
    "report-rejections": ("#rejections", "#rejections"),
    "report-evidence": ("#evidence", "#evidence .card:nth-of-type(2)"),
    "report-tests": ("#tests", "#time"),
}


def take(browser: Browser, report: Path, folder: Path) -> list[Path]:
    """Write a picture of each part of a report into the folder and return their paths."""
    browser.open(report.resolve().as_uri(), width=_WIDTH, height=_HEIGHT)
    return [browser.part(folder / f"{name}.png", first, last) for name, (first, last) in PICTURES.items()]


if __name__ == "__main__":
    program = find()
    assert program is not None, "no browser is installed"
    with Browser(program) as browser:
        for picture in take(browser, Path(sys.argv[1]) / "report.html", Path(sys.argv[2])):
            print(f"{picture.stat().st_size:>9,} bytes  {picture}")
