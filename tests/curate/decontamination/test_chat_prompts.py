"""`curate decontaminate` reads prompts that are conversations, among them those of curate's own exports."""

import json

import datasets
import pytest
from curate_command import curate
from exported import JOIN, JOINS, SUM, SUMS, problem, write
from source_rows import words, write_jsonl, write_parquet

from curate.dataset.dataset import Dataset
from sandbox import Suite


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    starter = "class Solution:\n    def join(self, words, mark):\n"
    rows = [problem(f"p{n}", Suite(SUMS), SUM, statement=words(n)) for n in range(4)]
    rows.append(problem("p4", Suite(JOINS, entry_point="join"), JOIN, statement=words(4), starter_code=starter))
    return write(tmp_path_factory.mktemp("dataset") / "built", rows)


@pytest.fixture
def evaluation_set(tmp_path):
    return write_jsonl(tmp_path / "eval.jsonl", [{"id": f"E/{n}", "text": words(n)} for n in (2, 4, "x")])


def clean_copy(raw, against, folder):
    """Return the folder of a copy without the items of an evaluation set."""
    curate("decontaminate", raw, "--against", against, "--out", folder / "clean", check=True)
    return folder / "clean"


def hits(folder):
    return [(row["row"], row["id"], row["item"], row["rule"]) for row in Dataset(folder).iter_rows("contamination")]


@pytest.mark.parametrize("to", ["trl", "verl", "verifiers"])
def test_our_exports_are_compared_without_the_words_of_our_prompts(dataset, evaluation_set, tmp_path, to):
    curate("export", dataset, "--to", to, "--out", tmp_path / to, check=True)
    clean = clean_copy(tmp_path / to, f"mine={evaluation_set}", tmp_path)
    assert hits(clean) == [(2, "taco/p2", "E/2", "same_text"), (4, "taco/p4", "E/4", "same_text")]
    cache = str(tmp_path / "cache")
    left = datasets.load_dataset(str(clean), split="train", cache_dir=cache)
    assert len(left) == 3
    assert len(datasets.load_dataset(str(clean), "rejected", split="train", cache_dir=cache)) == 2


def test_the_list_of_rows_that_an_export_leaves_out_is_not_part_of_it(dataset, evaluation_set, tmp_path):
    curate("export", dataset, "--to", "jsonl", "--out", tmp_path / "jsonl", check=True)
    assert (tmp_path / "jsonl" / "left_out.jsonl").exists()
    clean = clean_copy(tmp_path / "jsonl", f"mine={evaluation_set}", tmp_path)
    assert [path.name for path in (clean / "data").iterdir()] == ["problems.jsonl"]
    counts = json.loads((clean / "manifest.json").read_text())["counts"]["dataset"]
    assert (counts["read"], counts["kept"]) == (5, 3)


def test_what_a_model_answers_does_not_make_a_row_contaminated(evaluation_set, tmp_path):
    rows = [
        {"messages": [{"role": "user", "content": words(0)}, {"role": "assistant", "content": words(2)}]},
        {"messages": [{"role": "system", "content": words(4)}, {"role": "user", "content": words(2)}]},
    ]
    raw = write_parquet(tmp_path / "train.parquet", rows)
    clean = clean_copy(raw, f"mine={evaluation_set}", tmp_path)
    assert hits(clean) == [(1, "train.parquet:1", "E/2", "same_text")]


def test_an_export_can_be_the_evaluation_set(dataset, tmp_path):
    curate("export", dataset, "--to", "trl", "--out", tmp_path / "trl", check=True)
    raw = write_parquet(tmp_path / "train.parquet", [{"text": words(n)} for n in (1, 7)])
    clean = clean_copy(raw, f"held={tmp_path / 'trl'}?files=*.parquet", tmp_path)
    assert hits(clean) == [(0, "train.parquet:0", "taco/p1", "same_text")]


def test_a_column_that_is_neither_text_nor_a_conversation_is_explained(evaluation_set, tmp_path):
    raw = write_jsonl(tmp_path / "rows.jsonl", [{"prompt": [1, 2, 3]}])
    arguments = ["decontaminate", raw, "--against", f"mine={evaluation_set}", "--out", tmp_path / "out"]
    result = curate(*arguments)
    assert isinstance(result.exception, SystemExit)
    assert "rows.jsonl:0 has neither text nor messages of a chat, but list" in result.stderr
    assert "--text COLUMN" in result.stderr
