import json

import pytest
from source_rows import DATA, LISTS, leetcodedataset_row, write_jsonl

from curate.problem import Rejection
from curate.reading.tables import locate
from curate.sources.leetcodedataset import read
from sandbox import Assertions, Case, Program


def read_rows(tmp_path, *rows):
    return list(read(locate(str(write_jsonl(tmp_path / "rows.jsonl", list(rows))))))


def test_a_row_becomes_a_problem_that_is_given_what_its_prompt_contains(tmp_path):
    row = leetcodedataset_row("reverse-it")
    (problem,) = read_rows(tmp_path, row)
    assert (problem.id, problem.date) == ("leetcodedataset/reverse-it", "2024-08-01")
    assert problem.url == "https://leetcode.com/problems/reverse-it/"
    assert problem.tests.assertions.names == ("Solution",)
    assert problem.tests.assertions.given == LISTS
    assert problem.tests.cases == (
        Case(
            "assert is_same_list(Solution().reverse(head=list_node([1, 2, 3])), list_node([3, 2, 1]))",
            "",
        ),
        Case("Solution().reverse(head=None)", "None"),
    )
    assert problem.solutions == (Program(row["completion"]),)


def test_plain_assertions_have_their_values_taken_out(tmp_path):
    test = "def check(candidate):\n    assert candidate(nums = [1, 2], k = inf) == -inf\n"
    (problem,) = read_rows(tmp_path, leetcodedataset_row("a", test=test))
    assert problem.tests.cases == (Case("Solution().reverse(nums=[1, 2], k=1e999)", "-1e999"),)
    assert problem.tests.assertions == Assertions(("Solution",), LISTS, classes=("Solution",))


def test_a_check_of_nothing_is_a_rejection(tmp_path):
    (row,) = read_rows(tmp_path, leetcodedataset_row("a", test="def check(candidate):\n    pass\n"))
    assert isinstance(row, Rejection)
    assert row.detail == "the tests assert nothing"


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_a_real_problem_in_its_form_is_read(tmp_path):
    row = json.loads((DATA / "golden" / "leetcodedataset_corrupt_20.json").read_text())[0]
    check, _, call = row["tests"]["functional"].rpartition("\n\n\n")
    entry_point = call.removeprefix("check(").removesuffix(")")
    changes = {"test": check, "entry_point": entry_point, "completion": row["completion"]}
    (problem,) = read_rows(tmp_path, leetcodedataset_row("a", **changes))
    assert [case.expected for case in problem.tests.cases] == ["3", "2"]
