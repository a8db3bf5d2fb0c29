import json

import pytest
from source_rows import SUM, SUM_TESTS, apps_row, words, write_jsonl

from curate.problem import Problem, Rejection, Wrapping
from curate.reading.tables import hash_path, locate
from curate.sources.apps import read, select_files
from sandbox import Case, Program


def read_rows(tmp_path, *rows):
    return list(read(select_files(locate(str(write_jsonl(tmp_path / "train.jsonl", list(rows)))))))


def write_folder(folder, statement, **files):
    """Write one problem as the authors publish it. None leaves a file out."""
    row = apps_row(0, statement)
    content = {
        "question.txt": statement,
        "solutions.json": row["solutions"],
        "input_output.json": row["input_output"],
        "metadata.json": json.dumps({"difficulty": "interview", "url": row["url"]}),
    }
    folder.mkdir(parents=True)
    for name, text in (content | files).items():
        if text is not None:
            (folder / name).write_text(text)


def test_a_row_becomes_a_problem_named_after_its_number(tmp_path):
    (problem,) = read_rows(tmp_path, apps_row(17, words(0)))
    assert problem.id == "apps/17"
    assert problem.statement == words(0)
    assert problem.solutions == (Program(SUM),)
    assert problem.tests.cases == tuple(Case(i, o) for i, o in SUM_TESTS)
    assert (problem.difficulty, problem.url) == ("interview", "https://example.org/problem/7")


def test_the_number_may_be_called_id_as_in_the_files_behind_the_loader(tmp_path):
    row = apps_row(3, "s")
    row["id"] = row.pop("problem_id")
    assert read_rows(tmp_path, row, apps_row(0, "s"))[0].id == "apps/3"


def test_a_call_is_read_and_its_wrapping_left_open(tmp_path):
    starter = "def double(n):\n\t"
    (problem,) = read_rows(tmp_path, apps_row(0, "s", [([1], [2])], fn_name="double", starter_code=starter))
    assert problem.tests.entry_point == "double"
    assert problem.tests.cases == (Case("[1]", "[2]"),)
    assert problem.wrapping is Wrapping.UNDECIDED
    assert problem.starter_code == starter


@pytest.mark.parametrize("solutions", ["", "[]", None])
def test_missing_solutions_are_not_an_error(tmp_path, solutions):
    assert read_rows(tmp_path, apps_row(0, "s") | {"solutions": solutions})[0].solutions == ()


@pytest.mark.parametrize("content", ["", "{", '{"inputs": ["1", "2"], "outputs": ["1"]}'])
def test_tests_that_cannot_be_read_are_rejected(tmp_path, content):
    broken, whole = read_rows(tmp_path, apps_row(0, "s", input_output=content), apps_row(1, "s"))
    assert (broken.id, broken.stage, broken.reason) == ("apps/0", "parse", "unparsable")
    assert isinstance(whole, Problem)


def test_folders_of_the_authors_are_read_and_the_training_split_only(tmp_path):
    write_folder(tmp_path / "train" / "0000", words(0))
    write_folder(tmp_path / "train" / "0012", words(1), **{"starter_code.py": "def f(n):", "solutions.json": None})
    write_folder(tmp_path / "test" / "0001", words(2))
    table = select_files(locate(str(tmp_path)))
    assert table.files == (tmp_path / "train",)
    first, second = read(table)
    assert (first.id, first.statement, first.difficulty) == ("apps/0", words(0), "interview")
    assert first.solutions == (Program(SUM),)
    assert (second.id, second.solutions, second.starter_code) == ("apps/12", (), "def f(n):")
    assert [problem.id for problem in read(select_files(locate(str(tmp_path / "test"))))] == ["apps/1"]


@pytest.mark.parametrize(
    "broken",
    [{"question.txt": None}, {"metadata.json": "{"}, {"metadata.json": "[]"}, {"input_output.json": None}],
    ids=lambda broken: next(iter(broken)),
)
def test_a_broken_folder_is_a_rejection_and_the_others_are_read(tmp_path, broken):
    write_folder(tmp_path / "0000", words(0), **broken)
    write_folder(tmp_path / "0001", words(1))
    items = list(read(select_files(locate(str(tmp_path)))))
    assert [type(item) for item in items] == [Rejection, Problem]


def test_the_digest_of_a_split_covers_every_file_in_it(tmp_path):
    write_folder(tmp_path / "0000", words(0))
    before = hash_path(tmp_path)
    assert hash_path(tmp_path) == before
    (tmp_path / "0000" / "question.txt").write_text(words(1))
    assert hash_path(tmp_path) != before
