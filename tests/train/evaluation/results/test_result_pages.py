"""The pages of results are shown by a real browser, and what a model wrote does nothing on them."""

import json

import pytest
import tiny_world
from canned_results import evaluated
from curate_command import curate
from source_rows import livecodebench_row, write_jsonl

from train.evaluation.results import pages
from train.evaluation.results.result import read_results
from train.evaluation.results.tables import build_leaderboard

HOSTILE = (
    "<script>document.title = 'owned'; fetch('/owned')</script></div></details><h1>owned</h1>"
    "<img src=/owned onerror=\"document.title='owned'\"><meta http-equiv=refresh content='0;url=/owned'>"
    "{{ 7 * 7 }} &lt;b&gt; \u202eexe.stekcit\u202c \x1b[31m\0 \ud800"
)
SUM = "print(sum(map(int, input().split())))"
WIDTHS = (1280, 400)


def answer(id, number):
    """Solve a always and b never; the second sample of each is hostile."""
    code = SUM if id.endswith("/a") else "print(0)"
    return (HOSTILE if number else "") + tiny_world.fenced(code)


@pytest.fixture(scope="module")
def world(tmp_path_factory, box):
    """Return a folder with the rows of a suite and the results of two models on it, m.json and n.json."""
    folder = tmp_path_factory.mktemp("world")
    tests = tiny_world.stdin_tests(lambda a, b: a + b)
    rows = [livecodebench_row(id, f"Task {id}: <b>add</b>.", tests) for id in "ab"]
    location = write_jsonl(folder / "rows" / "test.jsonl", rows)
    for name in "mn":
        content = evaluated(folder / f"{name}.json", box, "lcb", location, answer, k=2)
        content["model"]["name"] = f"org/{name}<script>"
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def site(world):
    done = curate("results", world / "m.json", world / "n.json", "--format", "pages", "--out", world / "site")
    assert (done.exit_code, done.output) == (0, f"{world / 'site' / 'index.html'}\n")
    return world / "site"


@pytest.fixture
def show(browser):
    def show(path, width=1280):
        browser.said.clear()
        browser.asked.clear()
        browser.open(path.as_uri(), width=width, height=900)
        return browser

    return show


def visit(page, selector):
    """Follow a link on the page."""
    page.open(page.value(f"document.querySelector({selector!r}).href"), width=1280, height=900)


def test_links_lead_from_the_table_to_each_sample(show, site):
    page = show(site / "index.html")
    assert page.value("document.title") == "Evaluations"
    visit(page, "#board a")
    assert page.value("document.querySelector('h1').innerText") == "org/m<script>: lcb"
    visit(page, "#problems a")
    assert "Task a: <b>add</b>." in page.value("document.querySelector('#prompt').innerText")
    summaries = page.value("[...document.querySelectorAll('#samples > details > summary')].map(s => s.innerText)")
    assert summaries == ["0 accepted; 10 tokens", "1 accepted; 10 tokens"]
    assert page.value("document.querySelector('#samples .output').checkVisibility()") is False
    page.value("document.querySelectorAll('#samples > details').forEach(d => d.open = true)")
    assert SUM in page.value("document.querySelector('#samples .output').innerText")
    visit(page, "nav a")
    assert page.value("document.querySelectorAll('#samples .wrong').length") == 2
    visit(page, "header .name a")
    visit(page, "header .name a")
    assert page.value("document.title") == "Evaluations"


def test_what_a_model_wrote_is_only_text(show, site):
    path = site / "1" / "1.html"
    page = show(path)
    assert page.asked == [path.as_uri()]
    assert page.said == []
    assert page.value("document.title") == "livecodebench/a"
    assert page.value("document.scripts.length") == 0
    assert page.value("document.querySelectorAll('h1, img, [onerror]').length") == 1
    assert page.value("document.querySelectorAll('meta[http-equiv]').length") == 1  # the policy
    text = page.value("document.querySelectorAll('#samples .output')[1].textContent")
    assert text.startswith("<script>document.title = 'owned'")
    assert "{{ 7 * 7 }} &lt;b&gt; \\u202eexe.stekcit\\u202c \\x1b[31m\\x00 \\ud800" in text


def test_a_script_that_is_not_escaped_does_not_run(show, site, tmp_path):
    html = (site / "1" / "1.html").read_text().replace("<h1>", "<script>document.title = 'owned'</script><h1>", 1)
    (tmp_path / "page.html").write_text(html)
    page = show(tmp_path / "page.html")
    assert page.value("document.scripts.length") == 1
    assert page.value("document.title") == "livecodebench/a"
    assert "Content Security Policy" in " ".join(page.said)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", ["index.html", "1/index.html", "1/1.html"])
def test_nothing_is_wider_than_the_window(show, site, path, width):
    page = show(site / path, width=width)
    page.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.value("document.documentElement.scrollWidth") == width


def test_the_table_says_how_each_result_was_measured(show, world):
    out = world / "table.html"
    assert curate("results", world / "m.json", world / "n.json", "--format", "html", "--out", out).exit_code == 0
    page = show(out, width=400)
    cells = page.value("[...document.querySelectorAll('#board td.n')].map(td => td.innerText.split(/\\n/))")
    assert cells == [["0.500", "0.055-0.945", "2 × 2, T 0.6"]] * 2
    assert page.value("document.querySelectorAll('#board td.n > b').length") == 2  # both are the best
    heads, row = page.value(
        "[...document.querySelectorAll('#measured tr')].slice(0, 2).map(r => [...r.cells].map(c => c.innerText))"
    )
    found = dict(zip(heads, row, strict=True))
    assert (found["model"], found["problems"], found["k"]) == ("m<script>", "2", "2")
    assert (found["temperature"], found["max tokens"], found["protocol"]) == ("0.6", "16,384", "–")
    assert found["tests"] == "official"
    assert page.value("document.querySelectorAll('.warning').length") == 0


def test_a_long_answer_is_cut_in_the_middle():
    long = "a" * 50_000 + "b" * 100_000
    shown = pages._omit_middle(long)
    assert len(shown) < 81_000
    assert shown.startswith("a" * 20_000 + "\n\n[... 70,000 characters are left out ...]\n\nb")
    assert pages._omit_middle(long[:80_000]) == long[:80_000]


def test_answers_without_their_rows_are_shown_without_prompts(world, tmp_path):
    moved = json.loads((world / "m.json").read_text())
    moved["suite"]["location"] = str(tmp_path / "gone")
    (tmp_path / "m.json").write_text(json.dumps(moved))
    (tmp_path / "m.json.samples.jsonl").write_bytes((world / "m.json.samples.jsonl").read_bytes())
    failures = pages.write_pages(build_leaderboard(read_results((tmp_path / "m.json",))), tmp_path / "site")
    assert len(failures) == 1
    assert "have no prompts" in failures[0]
    html = (tmp_path / "site" / "1" / "1.html").read_text()
    assert "The rows of the suite were not found" in html
    assert SUM in html


def test_a_result_without_its_answers_has_no_pages_and_a_warning(world, tmp_path):
    (tmp_path / "m.json").write_bytes((world / "m.json").read_bytes())
    done = curate("results", tmp_path / "m.json", "--format", "pages", "--out", tmp_path / "site", check=True)
    assert "m.json.samples.jsonl is missing" in done.stderr
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]
    assert "<a href" not in (tmp_path / "site" / "index.html").read_text()


def test_pages_need_a_folder(world):
    done = curate("results", world / "m.json", "--format", "pages")
    assert done.exit_code == 1
    assert "--out FOLDER" in done.output
    done = curate("results", world / "m.json", "--format", "pages", "--out", world / "m.json")
    assert done.exit_code == 1
    assert "Traceback" not in done.output
