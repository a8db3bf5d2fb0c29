from source_rows import write_jsonl

from curate.problem import Rejection
from curate.reading.tables import locate
from curate.sources.acecode import read
from sandbox import Case


def test_lists_of_assertions_are_read_and_there_are_no_solutions(tmp_path):
    tests = ["assert add(1, 2) == 3", "assert add(1, 2)"]
    row = {"id": "oss_1", "source": "oss", "question": "Add two numbers.", "test_cases": tests, "inferences": []}
    problem, rejection = read(
        locate(str(write_jsonl(tmp_path / "rows.jsonl", [row, row | {"id": "b", "test_cases": ["a b"]}])))
    )
    assert (problem.id, problem.platform, problem.solutions) == ("acecode/oss_1", "oss", None)
    assert problem.tests.cases == (Case("add(1, 2)", "3"), Case(tests[1], ""))
    assert isinstance(rejection, Rejection)
    assert (rejection.id, rejection.reason) == ("acecode/b", "unparsable")
