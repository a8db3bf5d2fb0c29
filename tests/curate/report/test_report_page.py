"""The report is shown by a real browser, opened from its folder."""

import json
import re
import shutil
from collections import Counter

import pictures
import pytest
from browser import pixels
from showcase import HOSTILE
from source_rows import words, write_jsonl

from curate.decontamination.clean_copy import write_clean_copy

SECTIONS = ["funnel", "rejections", "evidence", "tests", "time", "solve-rate", "duplicates", "contamination", "making"]
WIDTHS = (1280, 400)


@pytest.fixture
def show(browser):
    def show(folder, width=1280, height=900, **options):
        browser.said.clear()
        browser.asked.clear()
        browser.open((folder / "report.html").as_uri(), width=width, height=height, **options)
        return browser

    return show


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return a foreign dataset about which almost nothing is known."""
    folder = tmp_path_factory.mktemp("bare")
    raw = write_jsonl(folder / "rows.jsonl", [{"text": words(n)} for n in range(4)])
    against = write_jsonl(folder / "eval.jsonl", [{"prompt": words(1)}])
    write_clean_copy(str(raw), [f"mine={against}"], folder / "out")
    return folder / "out"


def test_the_browser_detects_what_a_page_must_not_do(browser, tmp_path):
    page = "<script>console.error('a'); throw Error('b')</script><img src='http://127.0.0.1:9/x'>"
    (tmp_path / "report.html").write_text(page)
    browser.open((tmp_path / "report.html").as_uri(), width=400, height=400)
    assert len(browser.said) >= 2
    assert "http://127.0.0.1:9/x" in browser.asked


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_requests_nothing_but_itself_and_logs_no_errors(show, reported, dark):
    page = show(reported, dark=dark)
    assert page.asked == [(reported / "report.html").as_uri()]
    assert page.said == []


@pytest.mark.parametrize("which", ["reported", "showcase_build", "bare"])
def test_every_section_exists_and_has_content(show, which, request):
    page = show(request.getfixturevalue(which))
    assert page.value("[...document.querySelectorAll('main > section')].map(s => s.id)") == SECTIONS
    texts = page.value("[...document.querySelectorAll('main > section')].map(s => s.innerText)")
    assert all(len(text.split()) > 5 for text in texts)
    links = page.value("[...document.querySelectorAll('nav a')].map(a => a.hash.slice(1))")
    assert links == SECTIONS


def test_sections_without_data_say_so(show, bare):
    page = show(bare)
    words = page.value("[...document.querySelectorAll('.nothing')].map(p => p.innerText)")
    assert [text.split()[:2] for text in words] == [
        ["No", "evidence"],
        ["Tests", "per"],
        ["Test", "strength:"],
        ["Not", "measured:"],
        ["Not", "measured."],
        ["No", "row"],
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("which", ["reported", "showcase_build", "bare"])
def test_nothing_is_wider_than_the_window(show, which, width, request):
    page = show(request.getfixturevalue(which), width=width)
    page.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.value("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("width", WIDTHS)
def test_no_two_labels_of_a_chart_touch(show, reported, width):
    page = show(reported, width=width)
    boxes = page.value(
        "[...document.querySelectorAll('.plot svg')].map(s => [...s.querySelectorAll('text')].map(t => ["
        "t.textContent, t.getBoundingClientRect()]).filter(([, b]) => b.width)"
        ".map(([word, b]) => [word, b.left, b.right, b.top, b.bottom]))"
    )
    assert [len(chart) > 2 for chart in boxes] == [True] * 6
    for chart in boxes:
        for place, (word, left, right, top, bottom) in enumerate(chart):
            for other, other_left, other_right, other_top, other_bottom in chart[place + 1 :]:
                beside = right < other_left or other_right < left
                # Boxes are higher than digits, so they may overlap by a few pixels before the digits do.
                assert beside or bottom - 3 <= other_top or other_bottom - 3 <= top, (word, other)


def test_a_screenshot_shows_a_page_in_light_and_in_dark(show, reported, tmp_path):
    backgrounds = []
    for dark in (False, True):
        png = show(reported, width=640, height=320, dark=dark).screenshot(tmp_path / "page.png").read_bytes()
        rows = pixels(png)
        assert (len(rows[0]), len(rows)) == (640, 320)
        seen = Counter(pixel for row in rows for pixel in row)
        background, n = seen.most_common(1)[0]
        assert n < 0.9 * 640 * 320
        assert len(seen) > 50
        backgrounds.append(sum(background[:3]))
    light, dark = backgrounds
    assert light > 600 > 150 > dark


def test_hostile_text_stays_text(show, reported):
    page = show(reported)
    assert page.value("document.scripts.length") == 0
    assert page.value("window.hacked === undefined")
    statements = page.value("[...document.querySelectorAll('#duplicates .statement')].map(s => s.textContent)")
    assert statements[0].startswith(HOSTILE)
    assert (
        page.value("document.querySelector('#duplicates .sides').innerText").count("<script>") == 3
    )  # the kept one has a title


def test_words_of_only_one_statement_are_marked(show, reported):
    page = show(reported)
    marked = page.value(
        "[...document.querySelector('#duplicates .sides').querySelectorAll('mark')].map(m => m.textContent)"
    )
    assert marked[0] == " ".join(f"other{n}" for n in range(9))
    assert marked[1] == " ".join(words(0).split()[-9:])


def test_the_page_shows_the_numbers_of_the_report(show, reported):
    report = json.loads((reported / "report.json").read_text())
    page = show(reported)
    steps = page.value("[...document.querySelectorAll('.steps')].map(s => [...s.querySelectorAll('.n:not(.lost)')]"
                       ".map(n => Number(n.innerText)))")  # fmt: skip
    assert steps == [[count["read"], *count["after"], count["kept"]] for count in report["funnel"]["sources"].values()]
    fallen = page.value("[...document.querySelectorAll('#rejections td.n')].map(n => Number(n.innerText))")
    assert fallen == [entry["n"] for entry in report["rejections"]]
    bars = page.value("[...document.querySelectorAll('.plot svg')].map(s => [...s.querySelectorAll('rect.bar title')]"
                      ".map(t => Number(t.textContent.split(': ')[1])))")  # fmt: skip
    time = report["reference_time"]
    expected = [
        report["tests"]["counts"],
        report["test_strength"]["counts"],
        [*time["slowest"]["counts"], *time["limit"]["counts"]],
        *(rates["counts"] for rates in report["solve_rates"]),
        report["duplicates"]["similarity"]["counts"],
    ]
    assert bars == [[count for count in counts if count] for counts in expected]


def test_the_chosen_band_is_shaded_from_its_lowest_to_its_highest_bar(show, reported):
    page = show(reported)
    edges = page.value(
        "[...document.querySelectorAll('#solve-rate svg')].map(s => { const b = s.querySelector('.band')"
        ".getBoundingClientRect(), p = s.getBoundingClientRect(); return [(b.left - p.left) / p.width,"
        "(b.right - p.left) / p.width] })"
    )
    assert edges == [pytest.approx([1 / 9, 5 / 9], abs=0.01)] * 2


def test_the_page_still_works_after_it_is_moved(show, reported, tmp_path):
    shutil.copy(reported / "report.html", tmp_path)
    page = show(tmp_path)
    assert page.said == []
    assert page.value("document.querySelectorAll('main > section').length") == len(SECTIONS)


def test_evidence_shows_the_expected_and_the_actual_output_with_what_differs_marked(show, reported):
    page = show(reported)
    sides = page.value(
        "[...document.querySelector('#evidence .sides').querySelectorAll('.side')]"
        ".map(s => [s.querySelector('h4').innerText, s.querySelector('.output').innerText])"
    )
    assert sides == [["input", "0 1\n"], ["expected", "1\n"], ["solution 1 wrong_answer", "0\n"]]
    assert page.value("[...document.querySelectorAll('#evidence mark')].map(m => m.textContent)") == ["0"]
    text = page.value("document.querySelector('#evidence').textContent")
    assert words("a") in text  # the statement of the row
    assert "print(0)" in text
    assert words("b") in text  # the row with a picture


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_has_the_name_and_the_date_of_the_dataset(show, reported, width):
    manifest = json.loads((reported / "manifest.json").read_text())
    page = show(reported, width=width)
    assert page.value("document.title").startswith("Dataset report of out: ")
    assert page.value("document.querySelector('.name').innerText") == "out"
    assert page.value("document.querySelector('header time').dateTime") == manifest["date"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", manifest["date"])


def test_every_axis_and_every_column_of_numbers_says_what_it_counts(show, reported):
    page = show(reported)
    labels = page.value("[...document.querySelectorAll('.x-label, .y-label')].map(p => p.innerText.trim())")
    assert all(labels)
    assert len(labels) == 2 * page.value("document.querySelectorAll('.plot svg').length")
    unnamed = page.value(
        "[...document.querySelectorAll('td.n')].filter(d => { const t = d.closest('table');"
        "return !t.querySelector('th.n, .matrix th') }).length"
    )
    assert unnamed == 0


@pytest.mark.thorough
def test_the_pictures_of_the_documentation_can_be_made_from_a_report(browser, reported, tmp_path):
    for picture in pictures.take(browser, reported / "report.html", tmp_path):
        rows = pixels(picture.read_bytes())
        assert len(rows[0]) > len(rows) / 3 > 50
        assert len({pixel for row in rows for pixel in row}) > 20
