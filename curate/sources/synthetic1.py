"""PrimeIntellect/SYNTHETIC-1: a row for each response of a model, so only the first row of each problem_id counts.

Tests and metadata are text with Python literals or JSON. Tasks that are not code are rejected as `not_code`.
"""

from collections.abc import Iterator
from typing import Any

from curate.problem import Problem, Rejection
from curate.reading.dialects import json_tests
from curate.reading.prompt_templates import split_primeintellect_prompt
from curate.reading.solutions import parse_solution
from curate.reading.stated_limits import derive_limits
from curate.reading.tables import Row, TableFiles
from curate.reading.values import ParseError, optional_text, parse_json_or_literal
from curate.sources import make_problem, read_problems

TITLE = "SYNTHETIC-1"
HUB_ID = "PrimeIntellect/SYNTHETIC-1"
LICENCE = "apache-2.0"
SIZE_DESCRIPTION = "1,994,262 responses, several to a problem"
DEFECTS = "most tasks are not code; solutions missing, wrong or in another language; often only one test"
COLUMNS = ("problem_id", "task_type", "prompt", "gold_standard_solution", "verification_info")
OPTIONAL = ("source", "in_source_id", "metadata")
SEVERAL_ROWS_PER_PROBLEM = True


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of their first rows."""
    seen: set[str] = set()

    def parse(id: str, row: Row) -> Problem | None:
        if id in seen:
            return None
        seen.add(id)
        return _parse_row(id, row)

    return read_problems("synthetic1", COLUMNS, OPTIONAL, parse, table, name="problem_id")


def _parse_row(id: str, row: Row) -> Problem:
    if (task := optional_text(row["task_type"])) != "verifiable_code":
        raise ParseError(f"task_type {task}", "not_code")
    statement, starter_code = split_primeintellect_prompt(optional_text(row["prompt"]))
    info = row["verification_info"]
    content = info if isinstance(info, dict) else parse_json_or_literal(info, "verification_info")
    if not isinstance(content, dict) or not isinstance(content.get("test_cases"), list):
        raise ParseError("verification_info has no test_cases")
    tests = json_tests.parse_json_tests(content["test_cases"], starter_code=starter_code)
    metadata = _parse_metadata(row["metadata"])
    gold, language = row["gold_standard_solution"], optional_text(content.get("language"))
    return make_problem(
        id,
        tests,
        (parse_solution(gold, language),) if isinstance(gold, str) and gold.strip() else (),
        LICENCE,
        limits=derive_limits(metadata.get("time_limit"), metadata.get("memory_limit")),
        statement=statement,
        starter_code=starter_code,
        language=language,
        platform=row["source"],
        title=row["in_source_id"],
        url=metadata.get("problem_url"),
        difficulty=metadata.get("difficulty"),
    )


def _parse_metadata(encoded: object) -> dict[str, Any]:
    try:
        metadata = encoded if isinstance(encoded, dict) else parse_json_or_literal(encoded, "metadata")
    except ParseError:
        return {}  # optional, because limits and links have defaults
    return metadata if isinstance(metadata, dict) else {}
