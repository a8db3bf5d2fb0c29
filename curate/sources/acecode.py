"""AceCode: questions and lists of assertions that models wrote, without solutions."""

from functools import partial

from curate.problem import Problem
from curate.reading.dialects import assertions
from curate.reading.tables import Row
from curate.reading.values import parse_text_list
from curate.sources import make_problem, read_problems

TITLE = "AceCode"
HUB_ID = "TIGER-Lab/AceCode-87K"
LICENCE = "mit"
SIZE_DESCRIPTION = "87,149 problems"
DEFECTS = "no solutions, so nothing is verified; tests by a model, filtered by the solutions of another model"
COLUMNS = ("question", "test_cases")
OPTIONAL = ("id", "source")


def _parse_row(id: str, row: Row) -> Problem:
    tests = assertions.read(parse_text_list(row["test_cases"], "test_cases"))
    return make_problem(id, tests, None, LICENCE, statement=row["question"], platform=row["source"])


read = partial(read_problems, "acecode", COLUMNS, OPTIONAL, _parse_row, name="id")
