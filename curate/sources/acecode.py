"""AceCode: questions and lists of assertions that models wrote. There are no solutions that its authors vouch for."""

from collections.abc import Iterator

from curate.problem import Problem, Rejection
from curate.reading.dialects import assertions
from curate.reading.stated_limits import limits
from curate.reading.tables import TableFiles, UnreadableRow, numbered_rows
from curate.reading.values import ParseError, optional_text, parse_text_list

TITLE = "AceCode"
HUB_ID = "TIGER-Lab/AceCode-87K"
LICENCE = "mit"
SIZE_DESCRIPTION = "87,149 problems"
DEFECTS = "no solutions, so nothing is verified; tests by a model, of which those that another one failed were removed"
COLUMNS = ("question", "test_cases")
OPTIONAL = ("id", "source")


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of the table."""
    for position, row in numbered_rows(table, COLUMNS, OPTIONAL):
        if isinstance(row, UnreadableRow):
            yield Rejection(f"acecode/{row.location}", "acecode", "parse", "unparsable", row.detail)
            continue
        id = f"acecode/{optional_text(row['id']) or f'row-{position}'}"
        try:
            tests = assertions.read(parse_text_list(row["test_cases"], "test_cases"))
            yield Problem(
                id=id,
                source="acecode",
                statement=optional_text(row["question"]),
                tests=tests.suite(limits(None, None)),
                n_tests_read=len(tests.cases),
                solutions=None,
                platform=optional_text(row["source"]),
                licence=LICENCE,
            )
        except ParseError as error:
            yield Rejection(id, "acecode", "parse", "unparsable", str(error))
