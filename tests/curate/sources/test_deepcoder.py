import json

import pytest
from source_rows import DATA, SUM, SUM_TESTS, deepcoder_row, words, write_jsonl, write_parquet

from curate.pipeline import BuildOptions, build
from curate.problem import Wrapping
from curate.reading.tables import locate
from curate.sources.deepcoder import read
from sandbox import Case, Program

CASES = tuple(Case(i, o) for i, o in SUM_TESTS)
PROMPT = (
    "Solve the following coding problem using the programming language python:\n\n{}\n\n"
    "The input will be stdin and you should print your solution to stdout\n\n\n"
    "Now solve the problem and return the code."
)


def read_rows(path, *rows):
    return list(read(locate(str(write_parquet(path, list(rows))))))


def pairs(**more):
    return [{"input": i, "output": o} | more for i, o in SUM_TESTS]


def test_taco_rows_are_read(tmp_path):
    tests = {"inputs": [i for i, _ in SUM_TESTS], "outputs": [o for _, o in SUM_TESTS]}
    (problem,) = read_rows(tmp_path / "taco" / "train.parquet", deepcoder_row(words(0), tests, solutions=[SUM]))
    assert (problem.id, problem.platform) == ("deepcoder/taco/0", "taco")
    assert problem.tests.cases == CASES
    assert problem.solutions == (Program(SUM),)


def test_calls_of_taco_rows_leave_the_wrapping_open(tmp_path):
    tests = {"inputs": [[1], [2]], "outputs": [[2], [3]], "fn_name": "f"}
    (problem,) = read_rows(tmp_path / "taco" / "train.parquet", deepcoder_row("s", tests, solutions=[]))
    assert (problem.tests.entry_point, problem.wrapping) == ("f", Wrapping.UNDECIDED)


def test_primeintellect_rows_lose_prompt_and_fence(tmp_path):
    row = deepcoder_row(PROMPT.format(words(0)), pairs(type="stdin_stdout"), solutions=[f"```python\n{SUM}\n```"])
    (problem,) = read_rows(tmp_path / "primeintellect" / "train-0.parquet", row)
    assert problem.id == "deepcoder/primeintellect/0"
    assert problem.statement == words(0)
    assert problem.tests.cases == CASES
    assert problem.solutions == (Program(SUM),)


def test_the_function_of_lcbv5_rows_is_found_in_their_metadata(tmp_path):
    tests = [{"input": '1\n"a"', "output": "2", "testtype": "functional"}]
    starter = "class Solution:\n    def f(self, n: int, s: str) -> int:\n        "
    rows = [
        deepcoder_row("s", tests, starter_code=starter, metadata={"func_name": "f"}),
        deepcoder_row("s", tests, starter_code=starter, metadata={"func_name": None}),
        deepcoder_row("s", pairs(testtype="stdin"), starter_code="", metadata={"func_name": None}),
    ]
    calls, unnamed, stdin = read_rows(tmp_path / "lcbv5" / "train.parquet", *rows)
    assert calls.tests.entry_point == unnamed.tests.entry_point == "f"
    assert calls.tests.cases == (Case('[1, "a"]', "2"),)
    assert calls.solutions is None
    assert (stdin.tests.entry_point, stdin.tests.cases) == (None, CASES)


def test_codeforces_rows_have_neither_types_nor_solutions(tmp_path):
    (problem,) = read_rows(tmp_path / "codeforces" / "test.parquet", deepcoder_row(words(0), pairs()))
    assert problem.id == "deepcoder/codeforces/0"
    assert problem.tests.cases == CASES
    assert problem.solutions is None


def test_all_configs_of_a_full_copy_are_read_without_the_test_sets(tmp_path):
    write_parquet(tmp_path / "codeforces" / "test-0.parquet", [deepcoder_row("s", pairs())])
    write_parquet(tmp_path / "lcbv5" / "test-0.parquet", [deepcoder_row("s", pairs(testtype="stdin"))])
    for config, number in (("lcbv5", 0), ("primeintellect", 0), ("primeintellect", 1)):
        write_parquet(tmp_path / config / f"train-{number}.parquet", [deepcoder_row("s", pairs(type="stdin_stdout"))])
    ids = [problem.id for problem in read(locate(str(tmp_path)))]
    assert ids == ["deepcoder/lcbv5/0", "deepcoder/primeintellect/0", "deepcoder/primeintellect/1"]
    chosen = [problem.id for problem in read(locate(f"{tmp_path}?files=codeforces/*"))]
    assert chosen == ["deepcoder/codeforces/0"]


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param("{", id="torn"),
        pytest.param("7", id="a number"),
        pytest.param(json.dumps({"functional": "def check(candidate): pass"}), id="code"),
        pytest.param(json.dumps(pairs(type="stdin_stdout") + pairs(type="function_call", fn_name="f")), id="two kinds"),
        pytest.param(json.dumps(pairs(testtype="functional")), id="no name of a function"),
        pytest.param(json.dumps(pairs(type="mystery")), id="an unknown type"),
        pytest.param(json.dumps([{"input": "1", "testtype": "stdin"}]), id="no output"),
        pytest.param(None, id="null"),
    ],
)
def test_tests_that_cannot_be_read_are_rejected(tmp_path, tests):
    row = {"problem": "s", "tests": tests}
    (rejection,) = read(locate(str(write_jsonl(tmp_path / "train.jsonl", [row]))))
    assert (rejection.id, rejection.stage, rejection.reason) == ("deepcoder/train/0", "parse", "unparsable")


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
@pytest.mark.thorough
def test_real_primeintellect_rows_verify(tmp_path):
    location = str(DATA / "golden" / "train_verify.json")
    problems = list(read(locate(location)))
    assert [problem.id for problem in problems] == [f"deepcoder/train_verify/{n}" for n in range(10)]
    assert all(len(problem.tests.cases) == 1 and len(problem.solutions) == 1 for problem in problems)
    assert not any("programming language" in p.statement or "```" in p.solutions[0].source for p in problems)
    assert not any(p.statement.rstrip().endswith("return the code.") for p in problems)
    manifest = build([("deepcoder", location)], tmp_path / "out", BuildOptions(min_tests=1, mutants=0, cross_checks=0))
    assert manifest.counts["deepcoder"].n_verified == 10


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_foreign_tests_in_a_corrupt_file_are_noticed_in_every_row():
    items = list(read(locate(str(DATA / "golden" / "livecodebench_corrupt_20.json"))))
    assert {item.reason for item in items} == {"unparsable"}


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_an_evaluation_set_whose_tests_are_lists_is_read_completely():
    problems = list(read(locate(str(DATA / "eval" / "livecodebench_v5_2024-08_2025-02.json"))))
    assert len(problems) == 279
    assert {problem.solutions for problem in problems} == {None}
