"""Result files are read as they were written, and others are refused with words."""

import json

import pytest
from made_outcomes import outcome
from made_results import of_bits, write

from curate.errors import CurateError
from train.evaluation.results.result import label_results, read_result, read_results
from train.evaluation.results.tables import format_tokens, tabulate_strata


def test_a_result_is_read_as_it_was_written(tmp_path):
    problems = [outcome("a", "10x1", day="2024-08-03", difficulty="easy", tests="12"), outcome("b", "0000")]
    found = read_result(write(tmp_path / "m.json", problems, model="org/m", window="2024-08-01..2025-01-31"))
    assert found.outcomes == tuple(problems)
    assert (found.model, found.suite, found.k) == ("org/m", "lcb 2024-08-01..2025-01-31", 4)
    found.write(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads((tmp_path / "m.json").read_text())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not a JSON file"),
        ("[]", "is not the result of an evaluation"),
        ('{"model": "m", "problems": [], "schema": 9}', "has schema 9"),
        ('{"model": "m", "problems": [], "schema": 2}', "'suite' is missing"),
        ('{"model": "m", "problems": []}', "is not the result of an evaluation"),
    ],
)
def test_what_is_no_result_is_refused(text, said, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(CurateError, match=said):
        read_result(path)


def test_a_folder_gives_its_results_and_nothing_else(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "other.json").write_text("{}")
    with pytest.raises(CurateError, match="contains no result"):
        read_results((inside,))
    of_bits(inside / "b.json", "1")
    of_bits(inside / "a.json", "0")
    assert [result.path.name for result in read_results((inside,))] == ["a.json", "b.json"]


def test_results_have_different_labels(tmp_path):
    def named(*files_and_models):
        return label_results(
            [read_result(of_bits(tmp_path / file, "1", model=model)) for file, model in files_and_models]
        )

    assert named(("a.json", "org/x"), ("b.json", "models/y")) == ["x", "y"]
    assert named(("a.json", "org/x"), ("b.json", "my/x")) == ["org/x", "my/x"]
    assert named(("a.json", "x"), ("b.json", "x")) == ["a", "b"]
    assert len(set(named(("a.json", "x"), ("a.json", "x")))) == 2


def test_the_table_has_a_row_for_each_known_stratum():
    problems = [
        outcome("a", "1101", day="2024-08-03", difficulty="hard"),
        outcome("b", "1111", day="2024-09-01", difficulty="easy"),
        outcome("c", "0000"),
    ]
    names, rows = tabulate_strata(problems)
    assert names[:8] == ["", "problems", "pass@1", "95%", "pass@2", "pass@4", "always", "truncated"]
    assert [row[0] for row in rows] == [
        *["all", "easy", "hard", "unknown difficulty", "2024-08", "2024-09"],
        "unknown month",
    ]
    assert rows[0][1:3] == ["3", "0.583"]
    assert rows[0][5:7] == ["0.667", "0.333"]


def test_numbers_of_tokens_are_short():
    assert [format_tokens(n) for n in (812, 999, 1000, 9840, 9999, 29_400)] == [
        "812",
        "999",
        "1.0k",
        "9.8k",
        "10k",
        "29k",
    ]


def test_json_has_no_nan(tmp_path):
    from train.evaluation.results.result import encode_summary
    from train.evaluation.statistics.outcomes import summarize

    json.dumps(encode_summary(summarize([outcome("a", "x")])), allow_nan=False)
