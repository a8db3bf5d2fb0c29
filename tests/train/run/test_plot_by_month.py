"""A picture shows pass@1 by month, and the release of the model."""

import re

import pytest
from curate_command import curate
from made_outcomes import outcome
from made_results import of_bits, write

pytest.importorskip("matplotlib")


def texts(path):
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


def test_every_month_has_its_place_and_the_release_a_line(tmp_path):
    problems = [outcome("a", "11", day="2024-11-03"), outcome("b", "01", day="2025-01-04"), outcome("c", "x0")]
    files = [write(tmp_path / f"{name}.json", problems) for name in "mn"]
    done = curate("plot", "--by", "month", *files, "--released", "2024-12-15", check=True)
    out = tmp_path / "m.by-month.svg"
    assert done.stdout == f"{out}\n"
    shown = texts(out)
    assert [text for text in shown if text.startswith("202")] == ["2024-11", "2024-12", "2025-01"]
    assert {"m", "n", "released 2024-12-15"} <= set(shown)
    assert out.read_text().count("stroke-dasharray") >= 2


def test_a_result_without_dates_is_refused(tmp_path):
    done = curate("plot", "--by", "month", of_bits(tmp_path / "m.json", "1"))
    assert done.exit_code == 1
    assert "no problem has a date" in done.output
    assert curate("plot", "--by", "month", tmp_path / "none.json").exit_code == 1
    assert curate("plot", tmp_path, "--released", "2024-12-15").exit_code == 2
