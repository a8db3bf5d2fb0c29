"""Any table of problems. The text is in the first non-empty column of a list, or in the column of the option `text`."""

from collections.abc import Iterator

from curate.decontamination.evaluation_set import EvaluationItem, derive_texts, extract_text, read_named_rows
from curate.decontamination.problem_keys import derive_keys
from curate.reading.tables import TableFiles
from curate.reading.values import optional_text

TEXT_COLUMNS = (
    "statement problem question_content question prompt text description problem_statement instruction content "
    "messages conversations".split()
)
_IDS = ("id", "task_id", "problem_id", "question_id")
_METADATA_COLUMNS = ("url", "platform", "source", "title", "name", "date", "contest_date")


def read(table: TableFiles) -> Iterator[EvaluationItem]:
    """Yield an item for each row, named by its id or its index. Raises CurateError for a row without text."""
    text = table.options.get("text")
    texts = [str(text)] if text else TEXT_COLUMNS
    for name, row in read_named_rows(table, [*texts, *_IDS, *_METADATA_COLUMNS], options=("text",)):
        values = {column: optional_text(row[column]) for column in (*_IDS, *_METADATA_COLUMNS)}
        id = next((values[column] for column in _IDS if values[column]), name)
        names = (id, values["title"], values["name"])
        yield EvaluationItem(
            id=id,
            texts=derive_texts(extract_text(table, name, row, texts)),
            keys=derive_keys(url=values["url"], platform=values["platform"] or values["source"], names=names),
            date=(values["date"] or values["contest_date"])[:10],
        )
