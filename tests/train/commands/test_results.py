"""`curate results` shows many evaluations in one table, in the form that is asked for."""

import csv

import pytest
from curate_command import curate
from made_outcomes import outcome
from made_results import of_bits, write


@pytest.fixture
def folder(tmp_path):
    """Two suites; on the first, b is the best, c is close to it, and a is far behind."""
    bits = {"a": ["0"] * 12, "b": ["1"] * 12, "c": ["1"] * 11 + ["0"]}
    for name, of_model in bits.items():
        of_bits(tmp_path / f"{name}.json", *of_model)
    of_bits(tmp_path / "a2.json", "1", "0", model="a", suite="humaneval")
    return tmp_path


def run(*words):
    return curate("results", *words, check=True).stdout


def test_the_best_is_marked_and_what_is_close_to_it(folder):
    head, *rows, legend = run(folder).splitlines()
    assert head.split() == ["model", "lcb", "humaneval"]
    assert [row.split()[0] for row in rows] == ["a", "b", "c"]
    marks = {row.split()[0]: row.split()[3:4] for row in rows}
    assert marks["b"] == ["*"]
    assert marks["c"] == ["~"]
    assert "~" not in rows[0]
    assert "Not significantly worse" in legend


def test_markdown_html_and_csv_say_the_same(folder, tmp_path):
    markdown = run(folder, "--format", "markdown")
    assert "| b | **1.000** (0.700-1.000) |  |" in markdown
    assert "| c | 0.917 ~ (" in markdown
    out = tmp_path / "page" / "results.html"
    run(folder, "--format", "html", "--out", out)
    html = out.read_text()
    assert "<b>1.000</b>" in html
    assert "<small>0.700-1.000</small>" in html
    rows = {(row["model"], row["suite"]): row for row in csv.DictReader(run(folder, "--format", "csv").splitlines())}
    assert len(rows) == 4
    assert (rows["b", "lcb"]["best"], rows["c", "lcb"]["not_significantly_worse"]) == ("1", "1")
    assert float(rows["a", "lcb"]["p_from_best"]) == 3 / 2**11  # all pairs of three models, each way 1 of 2**12
    assert rows["a", "humaneval"]["pass_at_1"] == "0.5"


def test_all_models_that_share_the_highest_pass_at_1_are_the_best(tmp_path):
    bits = {"a": ("1", "0", "1"), "b": ("1", "1", "0"), "c": ("0", "0", "0")}
    for name, of_model in bits.items():
        of_bits(tmp_path / f"{name}.json", *of_model)
    marks = {line.split()[0]: line.split()[-1] for line in run(tmp_path).splitlines()[1:4]}
    assert marks == {"a": "*", "b": "*", "c": "~"}
    assert run(tmp_path, "--format", "markdown").count("**0.667**") == 2


def test_settings_that_differ_are_said_for_each_suite(folder):
    of_bits(folder / "d.json", *["11"] * 12)
    sentence = "lcb: Settings differ: k: 1 (a, b, c), 2 (d)."
    assert run(folder).splitlines()[0] == sentence
    assert f"- {sentence}\n" in run(folder, "--format", "markdown")
    assert f'<p class="warning">{sentence}</p>' in run(folder, "--format", "html")
    rows = csv.DictReader(run(folder, "--format", "csv").splitlines())
    assert {(row["k"], row["temperature"], row["top_p"], row["max_tokens"], row["protocol"]) for row in rows} == {
        ("1", "0.6", "0.95", "1024", ""),
        ("2", "0.6", "0.95", "1024", ""),
    }


def test_names_of_models_are_no_markup(tmp_path):
    file = of_bits(tmp_path / "m.json", "1", model="a<b>|c")
    assert "<td>a&lt;b&gt;|c</td>" in run(file, "--format", "html")
    assert "| a<b>\\|c |" in run(file, "--format", "markdown")


def test_other_problems_or_tests_under_the_same_name_have_their_own_column(tmp_path):
    first = write(tmp_path / "a.json", [outcome("p", "1", tests="x")])
    second = write(tmp_path / "b.json", [outcome("p", "0", tests="y")])
    assert "lcb (2)" in run(first, second)


def test_two_results_of_a_model_have_a_row_each(tmp_path):
    files = [of_bits(tmp_path / f"{name}.json", "1", model="m") for name in "ab"]
    assert [line.split("  ")[0] for line in run(*files).splitlines()[1:3]] == ["m", "m (b)"]


def test_a_model_card_has_a_row_for_each_suite_of_one_model(folder):
    card = run(folder / "a.json", folder / "a2.json", "--format", "model-card")
    assert card.startswith("## Evaluation\n")
    assert "| humaneval | 2 | 1 | 0.500 | " in card
    done = curate("results", folder, "--format", "model-card")
    assert done.exit_code == 1
    assert "these results are of a, b, c" in done.output
