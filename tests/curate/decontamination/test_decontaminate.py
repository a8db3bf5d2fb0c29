import json
from dataclasses import replace
from importlib import import_module

import pytest
from source_rows import DATA, words

from curate.decontamination.contamination_search import SPAN_CHARACTERS, find_contamination
from curate.decontamination.evaluation_set import DateWindow, EvaluationItem, EvaluationSet, read_evaluation
from curate.decontamination.training_set import TrainingRow, open_training_set, to_training_row
from curate.problem import Problem
from curate.reading.tables import locate
from sandbox import Suite


def item(id, *texts, **changes):
    return EvaluationItem(id, texts, **changes)


def against(*items, name="eval", window=None):
    return EvaluationSet(name, items, window)


def findings(rows, *evaluations):
    rows = [
        row if isinstance(row, TrainingRow) else TrainingRow(f"taco/{n}", "taco", row) for n, row in enumerate(rows)
    ]

    def some(wanted):
        return ((n, row) for n, row in enumerate(rows) if wanted is None or n in wanted)

    return find_contamination(some, evaluations)


def test_a_row_that_contains_half_of_an_item_is_removed_with_item_score_and_span():
    text = words(0, 50)
    held = " ".join(text.split()[:30])
    found = findings([words(1), f"{words(2)}\n{held.upper()}\n{words(3)}"], against(item("i/7", text)))
    (hit,) = found.hits
    assert (hit.row, hit.id, hit.source, hit.set, hit.item) == (1, "taco/1", "taco", "eval", "i/7")
    assert (hit.rule, hit.score, hit.verdict) == ("contained", round(23 / 43, 4), "removed")
    assert hit.span == held.upper()
    assert found.rejections.keys() == {1}
    rejection = found.rejections[1]
    assert (rejection.id, rejection.stage, rejection.reason) == ("taco/1", "decontaminate", "contaminated")
    assert rejection.detail.startswith("eval i/7 contained score=0.53: ")


def test_a_fifth_to_a_half_is_marked_for_review_and_less_is_ignored():
    text = words(0, 50)
    rows = [" ".join(text.split()[:n]) + f" {words(n)}" for n in (28, 16, 14)]
    found = findings(rows, against(item("i", text)))
    assert [(hit.row, hit.score, hit.verdict) for hit in found.hits] == [
        (0, round(21 / 43, 4), "review"),
        (1, round(9 / 43, 4), "review"),
    ]
    assert found.rejections == {}
    assert found.counts["eval"].n_to_review == 2
    assert found.counts["eval"].removed == 0


def test_either_wording_of_an_item_is_enough():
    whole, prose = f"{words('code', 90)} {words('prose', 20)}", words("prose", 20)
    found = findings([f"Write it. {prose}"], against(item("i", whole, prose)))
    assert [(hit.item, hit.score) for hit in found.hits] == [("i", 1.0)]


def test_the_same_key_means_the_same_problem_whatever_the_wording():
    row = TrainingRow("taco/0", "taco", words(0), keys=frozenset({"codeforces:1016/d"}))
    found = findings([row], against(item("1016D", words(1), keys=frozenset({"codeforces:1016/d"}))))
    assert [(hit.rule, hit.score, hit.span) for hit in found.hits] == [("same_key", 1.0, "codeforces:1016/d")]


def test_the_same_short_text_is_the_same_problem_and_a_short_one_is_found_inside_another():
    items = item("a", "Two sum."), item("b", "Return length of given string")
    found = findings(["two SUM", "Please return length of given string now", "two sum of"], against(*items))
    assert [(hit.row, hit.item, hit.rule) for hit in found.hits] == [(0, "a", "same_text"), (1, "b", "whole_item")]
    assert found.hits[1].span == "return length of given string"


@pytest.mark.parametrize(
    ("source", "date", "removed"),
    [
        pytest.param("livecodebench", "2024-08-01", True, id="first day"),
        pytest.param("livecodebench", "2025-02-01", True, id="last day"),
        pytest.param("livecodebench", "2024-07-31", False, id="the day before"),
        pytest.param("livecodebench", "2025-02-02", False, id="the day after"),
        pytest.param("livecodebench", "", False, id="no date"),
        pytest.param("taco", "2024-09-01", False, id="a source that publishes something else"),
    ],
)
def test_a_window_removes_its_contests_from_the_sources_that_publish_them(source, date, removed):
    window = DateWindow("2024-08-01", "2025-02-01", ("livecodebench",))
    found = findings(
        [TrainingRow("x/0", source, words(0), contests=frozenset({(source, date)}))], against(window=window)
    )
    assert [(hit.rule, hit.item, hit.span) for hit in found.hits] == (
        [("in_window", "2024-08-01..2025-02-01", date)] if removed else []
    )
    # A window removes what it was told to remove, so even a large share is not suspicious.
    assert found.counts["eval"].warning is None


def test_a_row_with_several_items_has_a_hit_for_each_and_one_rejection():
    one, other = words(0, 40), words(1, 40)
    found = findings([f"{one} {other}"], against(item("a", one)), against(item("b", other), name="second"))
    assert [(hit.set, hit.item) for hit in found.hits] == [("eval", "a"), ("second", "b")]
    assert found.rejections[0].detail.endswith("; and 1 more")
    assert {name: count.removed for name, count in found.counts.items()} == {"eval": 1, "second": 1}


def test_rows_with_the_same_id_are_distinguished_by_their_place():
    rows = [TrainingRow("same", "x", words(n)) for n in range(3)]
    found = findings(rows, against(item("i", words(1))))
    assert list(found.rejections) == [1]


def test_a_rate_is_counted_and_an_implausible_one_is_a_warning():
    rows = [words(n) for n in range(40)]
    few = findings(rows, against(*(item(str(n), words(n)) for n in (3, 5)))).counts["eval"]
    assert (few.items, few.items_found, few.rows, few.removed) == (2, 2, 40, 2)
    assert few.removal_rate == 0.05
    assert few.removed_by_rule == {"same_text": 2}
    assert few.warning is None
    many = findings(rows, against(*(item(str(n), words(n)) for n in (3, 5, 8)))).counts["eval"]
    assert "7.5% of the rows are in this set, more than the 5% that are plausible" in many.warning


def test_a_long_span_is_shortened():
    text = words(0, 300)
    (hit,) = findings([f"{words(1)} {text}"], against(item("i", text))).hits
    assert len(hit.span) == SPAN_CHARACTERS
    assert text.startswith(hit.span[:-3])


def test_no_rows_and_no_items_give_no_hits():
    assert findings([], against(item("i", words(0)))).counts["eval"].removal_rate == 0
    assert findings([words(0)]).hits == []


def test_statements_are_compared_without_their_template_and_with_all_their_names():
    problem = Problem("livecodebench/1016_D", "livecodebench", "", Suite(()), solutions=None, licence="")
    row = to_training_row(replace(problem, platform="codeforces", statement=f"QUESTION:\n{words(0)}\nANSWER:\n"))
    assert row.text == words(0)
    assert row.keys == {"codeforces:1016/d"}
    assert to_training_row(replace(problem, url="https://leetcode.com/problems/two-sum/")).keys == {"leetcode:two-sum"}


def test_a_problem_also_has_the_names_and_dates_of_its_duplicates():
    problem = Problem("taco/1", "taco", words(0), Suite(()), solutions=None, licence="")
    twin = replace(problem, id="livecodebench/2", source="livecodebench", date="2024-08-01", statement=words(1))
    row = to_training_row(problem, [replace(twin, platform="leetcode", title="Two Sum")])
    assert (row.id, row.text, row.keys) == ("taco/1", words(0), {"leetcode:two-sum"})
    assert row.contests == {("taco", ""), ("livecodebench", "2024-08-01")}


SOURCES = ("taco", "synthetic1", "livecodebench")
REAL = {
    "humaneval": "HumanEval.jsonl.gz",
    "lcb": "livecodebench_v5_2024-08_2025-02.json",
    "codeforces": "codeelo.json",
}


# What we remove beyond the labels: the second part of a series. The set has the first part, half of whose prose it
# repeats word for word. The labels do so for parts two and three of another series, so this one is missing there.
BEYOND_THE_LABELS = {("livecodebench/3261", f"{REAL['lcb']}:77")}


@pytest.fixture(scope="module")
def labelled():
    """Return the overlaps (row, item) in the labels of the real data."""
    if not DATA.is_dir():
        pytest.skip("the real data are not beside this checkout")
    found = set()
    for source in SOURCES:
        for line in (DATA / "labels" / f"{source}.jsonl").read_text().splitlines():
            label = json.loads(line)
            id = f"taco/{label['row']}" if source == "taco" else f"{source}/{label['id']}"
            found |= {(id, overlap["item"]) for overlap in label["eval_overlap"]}
    return found


@pytest.mark.parametrize(
    ("name", "n_agreed", "others"),
    [
        pytest.param("humaneval", 0, set()),
        pytest.param("lcb", 50, BEYOND_THE_LABELS),
        pytest.param("codeforces", 0, set()),
    ],
)
@pytest.mark.thorough
def test_the_known_overlaps_of_the_real_data_are_found(labelled, name, n_agreed, others):
    """All 50 overlaps of rows that can be read as problems are found, and one more. Rows for review have no label."""
    read = [import_module(f"curate.sources.{source}").read(locate(str(DATA / source))) for source in SOURCES]
    problems = {item.id: item for items in read for item in items if isinstance(item, Problem)}
    rows = [to_training_row(problem) for problem in problems.values()]
    evaluated = read_evaluation(f"{name}={DATA / 'eval' / REAL[name]}")
    hits = findings(rows, evaluated).hits
    removed = {(hit.id, hit.item) for hit in hits if hit.verdict == "removed"}
    assert len(removed & labelled) == n_agreed
    assert removed - labelled == others
    items = {item.id for item in evaluated.items}
    assert {(id, item) for id, item in labelled if id in problems and item in items} <= removed


def test_in_the_files_themselves_all_known_overlaps_are_found(labelled):
    """All 53 overlaps are found. Here, rows whose tests cannot be read count too, although they are not problems."""
    evaluated = read_evaluation(f"lcb={DATA / 'eval' / REAL['lcb']}")
    found = set()
    for source in SOURCES:
        hits = find_contamination(open_training_set(str(DATA / source)).iter_rows, [evaluated]).hits
        found |= {(f"{source}/{hit.id}", hit.item) for hit in hits if hit.verdict == "removed"}
    assert len(labelled) == 53
    assert found - labelled == BEYOND_THE_LABELS
    assert labelled <= found
