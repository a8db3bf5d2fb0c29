"""AI-MO/NuminaMath-1.5: problems of competitions and textbooks, with answers that a model extracted from solutions.

Columns have the type of each problem, and whether problem and solution are complete. They are not always right, so
`make_question` also checks the statement and the answer.
"""

from functools import partial

from curate.problem import Problem
from curate.reading.tables import Row
from curate.reading.values import ParseError, optional_text
from curate.sources import make_question, read_problems

TITLE = "NuminaMath-1.5"
HUB_ID = "AI-MO/NuminaMath-1.5"
LICENCE = "apache-2.0"
SIZE_DESCRIPTION = "896,215 math problems"
DEFECTS = "proofs, choices, several parts; answers missing, wrong or to the last part only; figures missing"
COLUMNS = ("problem", "answer")
OPTIONAL = ("problem_type", "question_type", "problem_is_valid", "solution_is_valid", "source", "synthetic")
_TYPES = {"proof": "proof", "MCQ": "multiple_choice"}


def _parse_row(id: str, row: Row) -> Problem:
    kind = optional_text(row["question_type"])
    if kind in _TYPES:
        raise ParseError(f"question_type {kind}", _TYPES[kind])
    for column in ("problem_is_valid", "solution_is_valid"):
        if (mark := optional_text(row[column])) not in ("Yes", ""):
            raise ParseError(f"{column} {mark}", "invalid")
    if row["synthetic"]:
        raise ParseError("a model made the question from another one", "synthetic")
    return make_question(
        id,
        optional_text(row["answer"]),
        LICENCE,
        statement=row["problem"],
        platform=row["source"],
        tags=[tag for tag in (optional_text(row["problem_type"]),) if tag],
    )


read = partial(read_problems, "numinamath", COLUMNS, OPTIONAL, _parse_row)
