"""Codeforces problems are read in their published forms, and the source of their tests is always known."""

import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from codeforces_rows import CHECKER, SUM, codeelo_row, deepcoder_row, open_r1_row
from source_rows import DATA, write_jsonl

from curate.errors import CurateError
from sandbox import Limits
from train.evaluation.codeforces.contests import (
    UnmatchedProblems,
    format_problem_id,
    parse_problem_key,
    parse_problem_keys,
)
from train.evaluation.exercises import parse_suite, read_exercises
from train.evaluation.statistics.outcomes import ProblemMetadata

CODEELO = DATA / "eval" / "codeelo.json"
IDS = DATA / "evaluation" / "metadata_cf.json"
RIGHT = "```python\nprint(sum(map(int, input().split())))\n```"


@pytest.fixture
def read(tmp_path):
    def read(*rows, options="", **more):
        return read_exercises(f"{write_jsonl(tmp_path / 'rows.jsonl', rows)}{options}", **more)

    return read


@pytest.mark.parametrize(
    ("row", "id", "facts"),
    [
        (open_r1_row(), "codeforces/1971/A", ProblemMetadata(800, "codeforces", date(2024, 6, 1), "official")),
        (codeelo_row(), "codeforces/1971/A", ProblemMetadata(1200, "codeforces", None, "examples")),
        (deepcoder_row(), "codeforces/row-0", ProblemMetadata(None, "codeforces", None, "examples")),
    ],
    ids=["open-r1", "CodeElo", "DeepCoder"],
)
def test_all_forms_are_recognised_and_judged_by_their_tests(read, box, row, id, facts):
    (exercise,) = read(row)
    assert (exercise.id, exercise.metadata) == (id, facts)
    assert [one.fingerprint for one in read(row, suite="codeforces")] == [exercise.fingerprint]
    assert exercise.judge.judge(RIGHT, box).verdict == "accepted"
    assert exercise.judge.judge(RIGHT.replace("sum", "max"), box).verdict == "wrong_answer"


def test_statements_have_their_parts_and_no_hidden_test(read):
    for row in (open_r1_row(), codeelo_row()):
        (exercise,) = read(row)
        text = str(exercise.prompt)
        assert all(part in text for part in ("A Sum", "Add two numbers.", "Their sum.", "1 2"))
        assert "4 5" not in text
    (exercise,) = read(deepcoder_row())
    assert "Time Limit: 1000 ms" in str(exercise.prompt)  # as DeepCoder asks, with tags and limits, without examples
    assert "1 2" not in str(exercise.prompt)


def test_a_generated_checker_rules_in_the_sandbox(read, box):
    tests = [{"input": "5\n", "output": "5\n"}, {"input": "20\n", "output": "299\n"}]
    (exercise,) = read(open_r1_row(official_tests=tests, generated_checker=CHECKER))
    other = "```python\nn = int(input())\nprint('1' * n)\n```"  # another right answer than the expected one
    assert exercise.judge.judge(other, box).verdict == "accepted"
    assert exercise.judge.judge(other.replace("* n", "* 5"), box).verdict == "wrong_answer"


def test_lines_and_the_case_of_yes_do_not_matter(read, box):
    (exercise,) = read(open_r1_row(official_tests=[{"input": "", "output": "YES\n1 2\n"}]))
    assert exercise.judge.judge("```python\nprint('Yes 1')\nprint(2)\n```", box).verdict == "accepted"


def test_limits_are_those_of_cpp_times_a_stated_factor(read):
    def limits(row, options=""):
        return read(row, options=options)[0].judge.suite.limits

    assert limits(open_r1_row()) == Limits(wall_seconds=5, memory_mb=512)
    assert limits(codeelo_row()) == Limits(wall_seconds=10, memory_mb=1024)
    assert limits(deepcoder_row(ms=1500, mb=32)) == Limits(wall_seconds=7.5, memory_mb=256)
    assert limits(open_r1_row(), "?time_factor=1&memory_factor=1") == Limits(wall_seconds=1, memory_mb=256)
    assert limits(open_r1_row(time_limit=None, memory_limit=None)) == Limits(wall_seconds=10, memory_mb=512)
    for wrong in ("time_factor=0", "memory_factor=much"):
        with pytest.raises(CurateError, match="_factor must be a number above 0"):
            limits(open_r1_row(), f"?{wrong}")
    with pytest.raises(CurateError, match="unknown option factor"):
        limits(open_r1_row(), "?factor=3")


def generated(folder, contest, *tests):
    """Write the generated tests of a contest as open-r1 publishes them."""
    folder.mkdir(exist_ok=True)
    rows = [
        {"problem_id": id, "input": given, "output": expected, "test_case_i": number}
        for number, (id, given, expected) in enumerate(tests)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / f"test_cases_{contest:04d}.parquet")


def test_generated_tests_are_added_where_the_official_ones_are_not_complete(read, box, tmp_path, caplog):
    short = open_r1_row("900/B", official_tests=SUM[:1], official_tests_complete=False, generated_tests=1)
    lonely = short | {"id": "901/B"}
    rows = (open_r1_row(), short, lonely)
    assert [one.id for one in read(*rows)] == ["codeforces/1971/A"]
    assert "2 problems are excluded: they lack the generated tests, which ?generated=FOLDER names" in caplog.text
    generated(tmp_path / "generated_tests", 900, ("900/A", "1", "1"), ("900/B", "20 30\n", "50\n"))
    for folder in (tmp_path, tmp_path / "generated_tests"):
        both, whole = read(*rows, options=f"?generated={folder}")
        assert (both.id, both.metadata.tests_source) == ("codeforces/900/B", "official+generated")
        assert [case.input for case in both.judge.suite.cases] == ["1 2\n", "20 30\n"]
        assert (whole.metadata.tests_source, len(whole.judge.suite.cases)) == ("official", 2)
    assert "1 problems are excluded: they have no generated tests" in caplog.text
    (tmp_path / "generated_tests" / "test_cases_0901.parquet").write_text("no tables")
    with pytest.raises(CurateError, match=r"test_cases_0901.parquet cannot be read as generated tests"):
        read(*rows, options=f"?generated={tmp_path}")
    with pytest.raises(CurateError, match=r"nothing has no test_cases_\*.parquet. Download them: hf download"):
        read(*rows, options=f"?generated={tmp_path / 'nothing'}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"interaction_format": "Ask and flush."}, "are interactive"),
        ({"input_mode": "file"}, "read or write files"),
        ({"executable": False}, "are not executable, according to open-r1"),
        ({"official_tests": []}, "have no tests"),
    ],
)
def test_problems_that_cannot_be_judged_are_left_out_and_counted(read, caplog, changes, reason):
    assert [one.id for one in read(open_r1_row(), open_r1_row("1971/B", **changes))] == ["codeforces/1971/A"]
    assert f"1 problems are excluded: they {reason}" in caplog.text


def test_a_problem_of_two_contests_has_both_in_its_id(read):
    (exercise,) = read(open_r1_row("2018/A", aliases=["2019/C", "2018/A"]))
    assert exercise.id == "codeforces/2018/A,2019/C"
    assert parse_problem_keys(exercise.id) == [(2018, "A"), (2019, "C")]
    assert format_problem_id([]) == ""


def test_an_option_chooses_problems_by_their_contests(read):
    rows = (open_r1_row(), open_r1_row("1999/A", aliases=["2001/B"]), open_r1_row("1970/A", interaction_format="Ask."))

    def chosen(option):
        return [one.id for one in read(*rows, options=f"?contests={option}")]

    assert chosen("1971") == ["codeforces/1971/A"]
    assert chosen("1000-1970,2001") == ["codeforces/1999/A,2001/B"]
    assert len(chosen("deepcoder")) == 2
    with pytest.raises(CurateError, match="'all' is not the number of a contest"):
        chosen("all")


def test_a_window_chooses_contests_by_their_day(read):
    rows = (open_r1_row(), open_r1_row("1999/A", contest_start=1723000000))
    assert [one.id for one in read(*rows, window="2024-06-01..2024-06-01")] == ["codeforces/1971/A"]
    with pytest.raises(CurateError, match="These problems have no dates. Type --window '', or omit `window`"):
        read(deepcoder_row(), window="2024-06-01..2024-06-02")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (open_r1_row("Round/A"), "'Round/A' is not the id of a Codeforces problem"),
        (open_r1_row(official_tests=[{"input": "1"}]), r"1971/A cannot be read \('output'\)"),
        (deepcoder_row(tests=[]), r"row-0 cannot be read \(it has no tests\)"),
        (deepcoder_row(tests=[["1"]]), r"row-0 cannot be read \(a test has no input and output\)"),
        (codeelo_row(examples=[["1", 2]]), r"1971A cannot be read \(an output is neither text nor a list"),
    ],
)
def test_rows_that_cannot_be_read_are_named(read, row, said):
    with pytest.raises(CurateError, match=said):
        read(row)


def test_a_problem_that_is_there_twice_is_refused(read):
    with pytest.raises(CurateError, match="the problem codeforces/1971/A occurs twice"):
        read(codeelo_row(), codeelo_row())


def test_the_name_alone_means_deepcoders_rows():
    place = "agentica-org/DeepCoder-Preview-Dataset?files=codeforces/*"
    assert parse_suite("codeforces") == ("codeforces", place)
    assert parse_suite("codeforces?time_factor=1") == ("codeforces", f"{place}&time_factor=1")


@pytest.mark.skipif(not CODEELO.is_file(), reason="the real data are not beside this checkout")
def test_deepcoders_rows_are_recognised_in_any_order():
    rows, ids = json.loads(CODEELO.read_text()), json.loads(IDS.read_text())
    asked = read_exercises(str(CODEELO))
    assert [one.id for one in asked] == [format_problem_id([parse_problem_key(id)]) for id in ids]
    assert {one.metadata.tests_source for one in asked} == {"examples"}
    assert sum(len(one.judge.suite.cases) for one in asked) <= 468
    unnamed = UnmatchedProblems()
    backwards = {unnamed.pop_matching_id(row["problem"]) for row in reversed(rows)}
    assert backwards == set(ids)
