"""LiveCodeBench, as published or as in DeepCoder's dataset (column `problem`, without ids and dates)."""

from collections.abc import Iterator

from curate.decontamination.evaluation_set import EvaluationItem, derive_texts, extract_text, read_named_rows
from curate.decontamination.problem_keys import derive_keys
from curate.reading.tables import TableFiles
from curate.reading.values import optional_text

# A window removes rows of these sources by their dates, even without the texts of the set.
SOURCES = ("livecodebench",)
_COLUMNS = ("question_content", "problem", "question_id", "question_title", "platform", "contest_date")


def read(table: TableFiles) -> Iterator[EvaluationItem]:
    """Yield an item for each problem. Raises CurateError on a row without text."""
    for name, row in read_named_rows(table, _COLUMNS):
        number, title = optional_text(row["question_id"]), optional_text(row["question_title"])
        yield EvaluationItem(
            id=number or name,
            texts=derive_texts(extract_text(table, name, row, ("question_content", "problem"))),
            keys=derive_keys(platform=optional_text(row["platform"]), names=(number, title)),
            date=optional_text(row["contest_date"])[:10],
        )
