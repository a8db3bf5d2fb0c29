import json

import pytest
from source_rows import SUM, SUM_TESTS, taco_row, words, write_parquet

from curate.problem import Problem, Rejection, Wrapping
from curate.reading.tables import locate
from curate.sources.taco import read
from sandbox import Case, Program


def read_rows(tmp_path, *rows):
    return list(read(locate(str(write_parquet(tmp_path / "taco.parquet", list(rows))))))


def test_a_row_becomes_a_problem_named_after_its_position(tmp_path):
    row = taco_row(words(1), time_limit="2 seconds", url="https://example.org/p/7", source="codeforces")
    first, second = read_rows(tmp_path, taco_row(words(0)), row)
    assert (first.id, second.id) == ("taco/0", "taco/1")
    assert second.statement == words(1)
    assert second.solutions == (Program(SUM),)
    assert second.tests.cases == tuple(Case(i, o) for i, o in SUM_TESTS)
    assert second.tests.checker == "lcb"
    assert second.tests.limits.wall_seconds == 10.0
    assert second.tags == ("Sorting", "Greedy")
    assert (second.platform, second.title) == ("codeforces", "7")


def test_solutions_may_already_be_a_list_and_an_explicit_null_function_means_stdin(tmp_path):
    content = {"inputs": ["1"], "outputs": ["1"], "fn_name": None}
    row = taco_row("s", input_output=json.dumps(content), solutions=["print(1)"])
    row["solutions"] = ["print(1)"]
    (problem,) = read_rows(tmp_path, row)
    assert problem.solutions == (Program("print(1)"),)
    assert problem.tests.entry_point is None


def test_lists_of_lines_are_joined(tmp_path):
    (problem,) = read_rows(tmp_path, taco_row("s", [(["1", "2", ""], ["3"])]))
    assert problem.tests.cases == (Case("1\n2\n", "3"),)


def test_repeated_tests_count_once(tmp_path):
    (problem,) = read_rows(tmp_path, taco_row("s", [("1", "1"), ("2", "2"), ("1", "1"), ("1", "2")]))
    assert len(problem.tests.cases) == 3
    assert problem.n_tests_read == 4


def test_a_call_keeps_its_arguments_as_json(tmp_path):
    tests = [([[1, 2], "é"], 3), ([[10**5000], ""], 0.5)]
    (problem,) = read_rows(tmp_path, taco_row("s", [(i, o) for i, o in tests[:1]], fn_name="f"))
    assert problem.tests.cases == (Case('[[1, 2], "é"]', "3"),)
    assert problem.tests.entry_point == "f"
    assert problem.tests.checker == "exact"
    assert problem.wrapping is Wrapping.NONE


def test_integers_beyond_4300_digits_are_kept(tmp_path):
    digits = "9" * 6000
    content = f'{{"fn_name": "f", "inputs": [[{digits}]], "outputs": [{digits}]}}'
    (problem,) = read_rows(tmp_path, taco_row("s", input_output=content))
    assert problem.tests.cases == (Case(f"[{digits}]", digits),)


def test_it_is_left_open_whether_lists_of_one_value_are_a_wrapping(tmp_path):
    wrapped, plain = read_rows(
        tmp_path,
        taco_row("s", [([1], [2]), ([2], [3])], fn_name="f"),
        taco_row("s", [([1], [2]), ([2], 3)], fn_name="f"),
    )
    assert wrapped.wrapping is Wrapping.UNDECIDED
    assert plain.wrapping is Wrapping.NONE


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param(None, id="null"),
        pytest.param("{", id="torn"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param("[]", id="no object"),
        pytest.param('{"inputs": ["1"]}', id="no outputs"),
        pytest.param('{"inputs": ["1", "2"], "outputs": ["1"]}', id="different lengths"),
        pytest.param('{"inputs": "12", "outputs": "12"}', id="no lists"),
        pytest.param('{"inputs": [1], "outputs": ["1"]}', id="a number as stdin"),
        pytest.param('{"inputs": [[["1"]]], "outputs": ["1"]}', id="lists in lists as stdin"),
        pytest.param('{"fn_name": "f", "inputs": [1], "outputs": [1]}', id="no argument list"),
        pytest.param('{"fn_name": 3, "inputs": [[1]], "outputs": [1]}', id="function without a name"),
    ],
)
def test_tests_that_cannot_be_read_are_rejected_and_never_repaired(tmp_path, content):
    broken, whole = read_rows(tmp_path, taco_row("s", input_output=content), taco_row("s"))
    assert isinstance(broken, Rejection)
    assert (broken.id, broken.stage, broken.reason) == ("taco/0", "parse", "unparsable")
    assert broken.detail
    assert isinstance(whole, Problem)


@pytest.mark.parametrize("solutions", ["[1]", "{}", "print(1)"])
def test_solutions_that_cannot_be_read_are_rejected(tmp_path, solutions):
    row = taco_row("s") | {"solutions": solutions}
    assert read_rows(tmp_path, row)[0].reason == "unparsable"


@pytest.mark.parametrize("solutions", ["[]", "", None])
def test_missing_solutions_are_not_an_error(tmp_path, solutions):
    row = taco_row("s") | {"solutions": solutions}
    assert read_rows(tmp_path, row, taco_row("s"))[0].solutions == ()
