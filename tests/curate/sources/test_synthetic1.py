import pytest
from source_rows import SUM, SUM_TESTS, synthetic1_row, words, write_parquet

from curate.problem import Rejection
from curate.reading.tables import locate
from curate.sources.synthetic1 import read
from sandbox import Case, Program


def read_rows(tmp_path, *rows):
    return list(read(locate(str(write_parquet(tmp_path / "s1.parquet", list(rows))))))


def call(input, output, name="f"):
    return {"type": "function_call", "fn_name": name, "input": input, "output": output}


def function_info(*tests):
    return {"language": "python", "test_cases": list(tests)}


def test_several_responses_to_a_problem_become_one_problem(tmp_path):
    rows = [synthetic1_row(id, words(id)) for id in ("a", "b", "a", "b", "a")]
    assert [problem.id for problem in read_rows(tmp_path, *rows)] == ["synthetic1/a", "synthetic1/b"]


def test_the_prompt_template_and_the_fence_are_removed(tmp_path):
    (problem,) = read_rows(tmp_path, synthetic1_row("a", words(1)))
    assert problem.statement == words(1)
    assert problem.solutions == (Program(SUM),)
    assert problem.tests.cases == tuple(Case(i, o) for i, o in SUM_TESTS)
    assert problem.tests.limits.wall_seconds == 10.0


def test_the_signature_at_the_end_of_the_prompt_becomes_starter_code(tmp_path):
    prompt = (
        "Solve the following coding problem using the programming language python:\n\nAdd one.\n\n"
        "The function to implement:\n\nclass Solution:\n    def f(self, n: int) -> int:\n\n\n"
        "Now solve the problem and return the code."
    )
    (problem,) = read_rows(tmp_path, synthetic1_row("a", "", prompt=prompt, info=function_info(call([1], 2))))
    assert problem.statement == "Add one."
    assert problem.starter_code.strip() == "class Solution:\n    def f(self, n: int) -> int:"
    assert problem.tests.entry_point == "f"


def test_python_values_become_json(tmp_path):
    info = function_info(call([(1, 2), None], True), call([[7], "ü"], (1,)))
    long = repr(info).replace("7", "7" * 5000)
    first, second = read_rows(tmp_path, synthetic1_row("a", "s", verification_info=long))[0].tests.cases
    assert first == Case("[[1, 2], null]", "true")
    assert second == Case(f'[[{"7" * 5000}], "ü"]', "[1]")


def test_tasks_that_are_not_code_are_rejected_as_such(tmp_path):
    (rejection,) = read_rows(tmp_path, synthetic1_row("m", "What is 1 + 1?", task_type="verifiable_math"))
    assert rejection == Rejection("synthetic1/m", "synthetic1", "parse", "not_code", "task_type verifiable_math")


@pytest.mark.parametrize(
    "info",
    [
        pytest.param("{", id="torn"),
        pytest.param("{'ground_truth': '7'}", id="no tests"),
        pytest.param(repr({"test_cases": ["1"]}), id="a test that is not an object"),
        pytest.param(repr(function_info(call([1], 2), call([1], 2, "g"))), id="two functions"),
        pytest.param(
            repr(function_info(call([1], 2), {"type": "stdin_stdout", "input": "1", "output": "2"})),
            id="two kinds",
        ),
        pytest.param(repr(function_info(call({1: 2}, 2))), id="no argument list"),
        pytest.param(repr(function_info(call([{1: 2}], 2))), id="a key that JSON would change"),
        pytest.param(repr(function_info(call([{1, 2}], 2))), id="a set"),
        pytest.param("open('/etc/passwd').read()", id="code"),
    ],
)
def test_tests_that_cannot_be_read_are_rejected(tmp_path, info):
    (rejection,) = read_rows(tmp_path, synthetic1_row("a", "s", verification_info=info))
    assert isinstance(rejection, Rejection)
    assert (rejection.stage, rejection.reason) == ("parse", "unparsable")


def test_rows_without_an_id_stay_distinct(tmp_path):
    items = read_rows(
        tmp_path, *[synthetic1_row("", words(n), problem_id=None) for n in range(2)], synthetic1_row("a", "")
    )
    assert [item.id for item in items] == ["synthetic1/row-0", "synthetic1/row-1", "synthetic1/a"]
