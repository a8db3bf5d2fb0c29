import json

import pytest
from source_rows import DATA, mbpp_row, write_jsonl

from curate.problem import Problem, Rejection
from curate.reading.tables import locate
from curate.sources.mbpp import read
from sandbox import Assertions, Case, Program

PLUS = DATA / "evaluation" / "MbppPlus-OriginFmt.jsonl.gz"


def read_rows(tmp_path, *rows):
    return list(read(locate(str(write_jsonl(tmp_path / "mbpp.jsonl", list(rows))))))


def test_a_row_becomes_a_problem_with_an_assertion_suite(tmp_path):
    (problem,) = read_rows(tmp_path, mbpp_row(2))
    assert (problem.id, problem.statement) == ("mbpp/2", "Write a function to find the sum of two numbers.")
    assert problem.starter_code == "def add(x, y):\n    ..."
    assert problem.tests.assertions == Assertions(("add",), setup="import math")
    assert problem.tests.cases == (
        Case("add(1, 2)", "3"),
        Case("add((1,), ())", "(1,)"),
        Case("assert math.isclose(add(0.1, 0.2), 0.3)", ""),
        Case("add(-1, 1)", "0"),
    )
    assert problem.solutions == (Program("import math\ndef add(x, y):\n  return x + y"),)


def test_the_sanitized_config_renames_columns(tmp_path):
    row = mbpp_row(2, prompt="Add.", test_imports=["import math", "import re"])
    for name in ("text", "test_setup_code", "challenge_test_list"):
        del row[name]
    (problem,) = read_rows(tmp_path, row)
    assert (problem.statement, len(problem.tests.cases)) == ("Add.", 3)
    assert problem.tests.assertions.setup == "import math\nimport re"


def test_a_function_that_hides_a_builtin_is_the_one_under_test(tmp_path):
    row = mbpp_row(126, code="def sum(a, b):\n    return 6", test_list=["assert sum(10, 15) == 6"])
    (problem,) = read_rows(tmp_path, row | {"challenge_test_list": []})
    assert (problem.tests.assertions.names, problem.tests.cases) == (("sum",), (Case("sum(10, 15)", "6"),))


def test_a_row_that_cannot_be_read_is_a_rejection_and_the_rest_is_read(tmp_path):
    broken, whole = read_rows(tmp_path, mbpp_row(0, test_list=["assert add("]), mbpp_row(1))
    assert isinstance(broken, Rejection)
    assert (broken.id, broken.reason, whole.id) == ("mbpp/0", "unparsable", "mbpp/1")


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_real_rows_are_read_with_the_tests_of_mbpp_and_of_mbpp_plus(tmp_path):
    import gzip

    with gzip.open(PLUS, "rt") as file:
        rows = [json.loads(line) for line, _ in zip(file, range(40), strict=False)]
    plus = read_rows(tmp_path, *rows)
    plain = read_rows(tmp_path, *({name: row[name] for name in row if name != "test"} for row in rows))
    assert {type(problem) for problem in plus + plain} == {Problem}
    assert [len(problem.tests.cases) for problem in plain[:5]] == [3, 4, 3, 6, 3]
    counts = [sum(case.expected != "" for case in problem.tests.cases) for problem in plus]
    assert sum(count > 50 for count in counts) > 25
    # Where values cannot be taken out, since they are compared with a tolerance, each turn of the loop is a test.
    assert sum(len(problem.tests.cases) > 50 for problem in plus) > sum(count > 50 for count in counts)
