"""LiveCodeBench, as published or as in DeepCoder's dataset (column `problem`, without ids and dates)."""

from collections.abc import Iterator

from curate.decontamination.evaluation_set import EvaluationItem, item_text, read_named_rows, text_variants
from curate.decontamination.problem_keys import derive_keys
from curate.reading.tables import TableFiles
from curate.reading.values import optional_text

# Rows of these sources are removed if their contests lie in a window, even if the texts of the set are not available.
SOURCES = ("livecodebench",)
_COLUMNS = ("question_content", "problem", "question_id", "question_title", "platform", "contest_date")


def read(table: TableFiles) -> Iterator[EvaluationItem]:
    """Yield an item for each problem. Raises CurateError on a row without text."""
    for name, row in read_named_rows(table, _COLUMNS):
        number, title = optional_text(row["question_id"]), optional_text(row["question_title"])
        yield EvaluationItem(
            id=number or name,
            texts=text_variants(item_text(table, name, row, ("question_content", "problem"))),
            keys=derive_keys(platform=optional_text(row["platform"]), names=(number, title)),
            date=optional_text(row["contest_date"])[:10],
        )
