import re
import shutil

import pyarrow.parquet as pq
import pytest
from curate_command import curate
from source_rows import SUM, SUM_TESTS, read_parquet, words, write_jsonl

from curate.decontamination.clean_copy import write_clean_copy


def test_without_an_id_the_first_rows_are_listed(reported):
    result = curate("inspect", reported, "--limit", 3, check=True)
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["id", "n_tests", "verified", "test_strength", "difficulty", "title"]
    ids = pq.read_table(reported / "data", columns=["id"]).column("id").to_pylist()
    assert [line.split()[0] for line in lines[1:4]] == ids[:3]
    assert lines[4] == f"... and {len(ids) - 3} more"


def test_everything_about_a_kept_row_is_shown(reported):
    result = curate("inspect", reported, "taco/5", check=True)
    (row,) = (row for row in read_parquet(reported / "data") if row["id"] == "taco/5")
    assert result.stdout.startswith("taco/5  Title 5\n")
    assert words(5) in result.stdout
    assert "Tests: 6, standard input and output, checker lcb" in result.stdout
    for given, expected in SUM_TESTS:
        assert any(line.split()[1:4] == [*given.split(), expected.strip()] for line in result.stdout.splitlines())
    assert f"    {SUM}\n" in result.stdout
    assert f"of {row['n_mutants'] - row['n_mutants_equivalent']} wrong programs caught" in result.stdout
    assert "someone/some-model-of-7B" in result.stdout
    assert "licence     apache-2.0" in result.stdout
    assert "synthetic1/t5  jaccard=" in result.stdout  # removed in favour of this row
    assert "E/5" in result.stdout  # the evaluation item to review


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("taco/14", ["stage   verify", "reason  reference_fails", "cause   wrong_answer"]),
        ("synthetic1/t5", ["stage   dedup", "reason  duplicate_near", "kept=taco/5"]),
        ("taco/4", ["stage   decontaminate", "E/4"]),
    ],
)
def test_the_reason_is_shown_for_a_row_that_was_dropped(reported, id, words):
    result = curate("inspect", reported, id, check=True)
    assert f"{id} was rejected" in result.stdout
    for word in words:
        assert word in result.stdout


def test_one_test_is_shown_whole(reported):
    result = curate("inspect", reported, "taco/5", "--test", 2)
    assert result.stdout.splitlines()[0] == "taco/5, test 2 of 6"
    given, expected = SUM_TESTS[1]
    assert f"\n{given}" in result.stdout
    assert f"\n{expected}" in result.stdout


def test_hostile_text_does_not_reach_the_terminal(reported):
    for output in (curate("inspect", reported, "taco/0").output, curate("inspect", reported).output):
        assert "\\x1b[31m\\u202e" in output
        assert not set(output) & set("\x1b\u202e\r")


def test_the_list_of_an_older_dataset_without_later_columns_is_shown(showcase_build, tmp_path):
    copy = shutil.copytree(showcase_build, tmp_path / "copy")
    (path,) = (copy / "data").glob("*.parquet")
    later = ["test_strength", "n_mutants", "n_mutants_killed", "n_mutants_equivalent", "strongest_tests"]
    later += ["slowest_cpu_seconds", "time_limit_seconds", "n_references", "multi_answer_suspect"]
    pq.write_table(pq.read_table(path).drop_columns(later), path)
    assert curate("inspect", copy).exit_code == 0
    assert "not measured" in curate("inspect", copy, "taco/5").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["taco/999"], "no row taco/999", id="no such row"),
        pytest.param(["t5"], "Did you mean synthetic1/t5", id="half an id"),
        pytest.param(["taco/5", "--test", "7"], "a number from 1 to 6", id="no such test"),
        pytest.param(["taco/5", "--test", "0"], "a number from 1 to 6", id="tests count from one"),
        pytest.param(["taco/14", "--test", "1"], "so its tests are not in the dataset", id="test of a fallen row"),
        pytest.param(["--test", "1"], "--test needs the id of a problem", id="test of nothing"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(reported, words, message):
    result = curate("inspect", reported, *words)
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.mark.parametrize("command", ["inspect", "stats"])
def test_a_folder_that_is_not_a_dataset_is_explained(showcase_build, tmp_path, command):
    def error_output(folder):
        result = curate(command, folder)
        assert isinstance(result.exception, SystemExit)
        assert result.exit_code == 1
        return result.stderr

    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "file", "empty"):
        assert f"{name} is not a curate dataset" in error_output(tmp_path / name)
    (tmp_path / "unfinished" / ".work").mkdir(parents=True)
    assert "Run the same command again; it continues" in error_output(tmp_path / "unfinished")
    copy = shutil.copytree(showcase_build, tmp_path / "copy")
    (path,) = (copy / "data").glob("*.parquet")
    whole = path.read_bytes()
    for damaged in (whole[:-100], b"", whole[:200] + b"\0" * (len(whole) - 300) + whole[-100:]):
        path.write_bytes(damaged)
        assert re.search(r"train-00000-of-00001.parquet: .*damaged", error_output(copy))
    for text in ("{", "[]", '{"plan": {}}', '{"plan": 1, "counts": 2, "content_hash": 3}'):
        (copy / "manifest.json").write_text(text)
        assert "Build it again." in error_output(copy) or "is not a curate dataset" in error_output(copy)
    shutil.copy(showcase_build / "manifest.json", copy)
    shutil.rmtree(copy / "data")
    assert "is not a curate dataset" in error_output(copy)


def test_foreign_rows_are_not_problems(tmp_path):
    raw = write_jsonl(tmp_path / "rows.jsonl", [{"text": words(n)} for n in range(4)])
    against = write_jsonl(tmp_path / "eval.jsonl", [{"prompt": words(1)}])
    write_clean_copy(str(raw), [f"mine={against}"], tmp_path / "out")
    result = curate("inspect", tmp_path / "out")
    assert result.exit_code == 1
    assert "Pass a folder that `curate build-dataset` wrote" in result.stderr
