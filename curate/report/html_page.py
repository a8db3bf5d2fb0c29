"""Write `report.html`, which shows the numbers of the report in one file and needs neither scripts nor a network."""

from pathlib import Path

from curate.dataset.evidence import SUSPECT_REASON
from curate.report import charts
from curate.report.html_kit import render
from curate.report.report_data import Numbers
from curate.report.word_diff import mark_differences


def render_page(numbers: Numbers) -> str:
    """Return a self-contained page that shows these numbers."""
    return render(
        Path(__file__).with_name("page.html"),
        **numbers,
        sources=list(numbers["funnel"]["sources"]),
        charts=charts,
        marked=mark_differences,
        suspect=SUSPECT_REASON,
    )
