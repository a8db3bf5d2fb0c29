"""LeetCodeDataset: problems of LeetCode, each with a function `check` of about a hundred assertions.

`prompt` contains imports and, if a problem needs them, ListNode and TreeNode with helper functions. LeetCodeDataset
prepends it to the solution, so the submission and the tests can use it.
"""

from functools import partial

from curate.problem import Problem
from curate.reading.dialects import assertions
from curate.reading.solutions import parse_solution
from curate.reading.tables import Row
from curate.reading.values import optional_text, parse_text_list
from curate.sources import make_problem, read_problems

TITLE = "LeetCodeDataset"
HUB_ID = "newfacade/LeetCodeDataset"
LICENCE = "mit"
SIZE_DESCRIPTION = "2,641 training and 228 test problems in v0.3.1"
DEFECTS = "overlaps with LiveCodeBench; estimated dates; some expected values are error messages; images missing"
COLUMNS = ("task_id", "problem_description", "completion", "entry_point", "test")
OPTIONAL = ("prompt", "starter_code", "difficulty", "tags", "estimated_date")


def _parse_row(id: str, row: Row) -> Problem:
    name = optional_text(row["task_id"])
    tests = assertions.read(row["test"], optional_text(row["entry_point"]), preamble=optional_text(row["prompt"]))
    return make_problem(
        id,
        tests,
        (parse_solution(optional_text(row["completion"]), "python"),),
        LICENCE,
        statement=row["problem_description"],
        starter_code=row["starter_code"],
        platform="leetcode",
        title=name,
        url=f"https://leetcode.com/problems/{name}/" if name else "",
        date=optional_text(row["estimated_date"])[:10],
        difficulty=row["difficulty"],
        tags=parse_text_list(row["tags"], "tags"),
    )


read = partial(read_problems, "leetcodedataset", COLUMNS, OPTIONAL, _parse_row, name="task_id")
