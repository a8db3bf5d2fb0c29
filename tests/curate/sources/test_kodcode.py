from source_rows import kodcode_row, write_jsonl

from curate.problem import Rejection
from curate.reading.tables import locate
from curate.sources.kodcode import read
from sandbox import Case


def read_rows(tmp_path, *rows):
    return list(read(locate(str(write_jsonl(tmp_path / "rows.jsonl", list(rows))))))


def test_a_row_becomes_a_problem_whose_test_functions_are_tests(tmp_path):
    (problem,) = read_rows(tmp_path, kodcode_row("Prefill_1_I"))
    assert (problem.id, problem.platform, problem.difficulty) == ("kodcode/Prefill_1_I", "Prefill", "easy")
    assert (problem.starter_code, problem.tests.assertions.names) == ("def add(x, y):", ("add",))
    example, function = problem.tests.cases
    assert example == Case("add(1, 2)", "3")
    assert function.input.startswith("def test_text():")
    assert function.input.endswith("test_text()")


def test_the_test_column_had_another_name_and_a_question_may_contain_the_code(tmp_path):
    row = kodcode_row("a", style="complete")
    row["test_code"] = row.pop("test")
    (problem,) = read_rows(tmp_path, row)
    assert (len(problem.tests.cases), problem.starter_code) == (2, "")


def test_tests_with_fixtures_are_a_rejection(tmp_path):
    (row,) = read_rows(tmp_path, kodcode_row("a", test="def test_a(capsys):\n    assert add(1, 2) == 3"))
    assert isinstance(row, Rejection)
    assert (row.reason, row.detail) == ("unparsable", "a test needs the fixture capsys")
