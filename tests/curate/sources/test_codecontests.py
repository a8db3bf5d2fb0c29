import pytest
from source_rows import SUM, SUM_TESTS, codecontests_row, words, write_parquet

from curate.ingestion import image
from curate.problem import Problem, Rejection
from curate.reading.solutions import select_candidates
from curate.reading.tables import locate
from curate.sources.codecontests import read
from sandbox import Case, Program


def read_rows(tmp_path, *rows):
    return list(read(locate(str(write_parquet(tmp_path / "train.parquet", list(rows))))))


def test_a_row_becomes_a_problem_named_after_site_and_name(tmp_path):
    (problem,) = read_rows(tmp_path, codecontests_row("76_B. Mice", words(0)))
    assert problem.id == "codecontests/codeforces/76_B. Mice"
    assert (problem.platform, problem.title, problem.difficulty) == ("codeforces", "76_B. Mice", "2100")
    assert problem.url == "https://codeforces.com/problemset/problem/76/B"
    assert problem.tags == ("greedy", "two pointers")
    assert problem.statement == words(0)


def test_public_tests_come_first_then_private_then_generated_ones(tmp_path):
    (problem,) = read_rows(tmp_path, codecontests_row("a", "s", [*SUM_TESTS, SUM_TESTS[0]]))
    assert problem.tests.cases == tuple(Case(i, o) for i, o in SUM_TESTS)
    assert problem.n_public_tests == 1
    assert problem.n_tests_read == len(SUM_TESTS) + 1


def test_numbers_are_translated_to_languages(tmp_path):
    sources = ["?", "print(1)", "int main() {}", SUM, "class Main {}"]
    solutions = {"language": [0, 1, 2, 3, 4], "solution": sources}
    (problem,) = read_rows(tmp_path, codecontests_row("a", "s", solutions=solutions))
    assert [solution.language for solution in problem.solutions] == ["unknown", "python2", "cpp", "python", "java"]
    assert select_candidates(problem, ("python",)) == [Program(SUM)]


def test_limits_are_read_from_numbers(tmp_path):
    slow = codecontests_row("a", "s", time_limit={"seconds": 1, "nanos": 500000000})
    unstated = codecontests_row("b", "s", time_limit=None, memory_limit_bytes=0)
    first, second = (problem.tests.limits for problem in read_rows(tmp_path, slow, unstated))
    assert (first.wall_seconds, first.memory_mb) == (7.5, 512)
    assert (second.wall_seconds, second.memory_mb) == (10.0, 1024)


@pytest.mark.parametrize("names", [{"input_file": "input.txt"}, {"output_file": "output.txt"}], ids=["input", "output"])
def test_problems_that_use_files_are_rejected_with_that_reason(tmp_path, names):
    (rejection,) = read_rows(tmp_path, codecontests_row("a", "s", **names))
    assert (rejection.id, rejection.stage, rejection.reason) == ("codecontests/codeforces/a", "parse", "file_io")
    assert next(iter(names.values())) in rejection.detail


def test_image_placeholders_are_noticed(tmp_path):
    (problem,) = read_rows(tmp_path, codecontests_row("a", f"{words(0)} <image> {words(1)}"))
    assert image(problem) == "image"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"public_tests": {"input": ["1", "2"], "output": ["1"]}}, id="different lengths"),
        pytest.param({"private_tests": {"input": ["1"]}}, id="no outputs"),
        pytest.param({"solutions": {"language": [3], "solution": []}}, id="a language without a program"),
    ],
)
def test_lists_that_do_not_match_are_rejected(tmp_path, change):
    (rejection,) = read_rows(tmp_path, codecontests_row("a", "s", **change))
    assert (rejection.stage, rejection.reason) == ("parse", "unparsable")


def test_the_same_name_on_two_sites_means_two_problems(tmp_path):
    rows = [codecontests_row("a", words(n), source=n) for n in (1, 3)]
    assert [item.id for item in read_rows(tmp_path, *rows)] == ["codecontests/codechef/a", "codecontests/hackerearth/a"]


def test_null_columns_are_not_an_error(tmp_path):
    nothing = dict.fromkeys(["generated_tests", "solutions", "cf_tags", "source", "difficulty", "cf_rating"])
    (problem,) = read_rows(tmp_path, codecontests_row("a", "s") | nothing)
    assert isinstance(problem, Problem)
    assert not isinstance(problem, Rejection)
    assert (problem.solutions, len(problem.tests.cases)) == ((), 3)
