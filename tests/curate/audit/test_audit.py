"""References are judged on their tests again, and raw data of any source can be audited."""

import json

import pytest
from curate_command import curate
from exported import SUM, SUMS, problem, write
from source_rows import taco_row, words, write_parquet

from sandbox import Suite


def audited(out):
    return json.loads((out / "audit.json").read_text())


@pytest.fixture
def dataset(tmp_path):
    rows = [
        problem("bad", Suite(SUMS), "print(1)"),
        problem("good", Suite(SUMS), SUM),
        problem("few", Suite(SUMS[:2]), SUM),
        problem("suspect", Suite(SUMS), SUM, multi_answer_suspect=True),
        problem("unseen", Suite(SUMS), None),
    ]
    return write(tmp_path / "dataset", sorted(rows, key=lambda row: row.id))


def test_references_that_fail_are_reported_with_the_test(dataset, tmp_path):
    result = curate("verify", dataset, "--run", "all", "--out", tmp_path / "audit", "--workers", 2)
    assert result.exit_code == 1, result.output
    found = audited(tmp_path / "audit")
    assert (found["n_rows"], found["n_judged"], found["n_passed"]) == (5, 4, 3)
    assert (found["n_suspects"], found["n_few_tests"], found["not_judged"]) == (1, 1, {"unverified": 1})
    (failure,) = found["failures"]
    assert (failure["id"], failure["cause"]) == ("taco/bad", "wrong_answer")
    assert failure["detail"].startswith("test 2: wrong_answer")
    assert "For 1 row, no program passes all tests:" in result.stdout
    assert "| taco/bad | wrong_answer |" in (tmp_path / "audit" / "audit.md").read_text()


def test_what_was_judged_is_not_executed_again(dataset, tmp_path):
    words = (dataset, "--run", "2", "--out", tmp_path / "audit", "--workers", 2)
    curate("verify", *words)
    first = audited(tmp_path / "audit")
    assert first["n_judged"] == 2
    journal = (tmp_path / "audit" / "judgements.jsonl").read_text().splitlines()
    assert len(journal) == 2
    curate("verify", *words[:2], "all", *words[3:])
    assert (tmp_path / "audit" / "judgements.jsonl").read_text().splitlines()[:2] == journal
    assert audited(tmp_path / "audit")["n_judged"] == 4


def test_raw_data_is_audited_by_a_build_of_a_sample(tmp_path):
    rows = [taco_row(words(n)) for n in range(6)] + [taco_row(words(9), solutions=["print(0)"])]
    raw = write_parquet(tmp_path / "raw" / "train.parquet", rows)
    out = tmp_path / "audit"
    result = curate("verify", f"taco={raw}", "--run", "all", "--out", out, "--workers", 2)
    assert result.exit_code == 1, result.output
    found = audited(out)
    assert (found["n_rows"], found["n_judged"], found["n_passed"]) == (7, 7, 6)
    assert found["causes"] == {"wrong_answer": 1}
    assert [failure["id"] for failure in found["failures"]] == ["taco/6"]
    assert (out / "report.html").is_file()
    sampled = curate("verify", f"taco={raw}", "--run", "3", "--out", tmp_path / "sample", "--workers", 2)
    assert audited(tmp_path / "sample")["n_rows"] == 3, sampled.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("taco=nowhere",), "Execute its solutions: curate verify taco=nowhere --run 200, or --run all"),
        (("taco=nowhere", "--run", "5"), "nowhere: no such file or folder"),
        (("nonsense=nowhere", "--run", "5"), "unknown source nonsense"),
        (("nowhere", "--run", "some"), "neither all nor a number of rows"),
        (("nowhere", "--run", "0"), "neither all nor a number of rows"),
        (("nowhere",), "is not a curate dataset"),
    ],
)
def test_mistakes_are_explained(arguments, said):
    result = curate("verify", *arguments)
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.stderr.split())
