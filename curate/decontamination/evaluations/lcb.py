"""LiveCodeBench, as published or as the DeepCoder data set holds it (`problem` and tests, without ids and dates)."""

from collections.abc import Iterator

from curate.decontamination.evaluation_sets import Item, rows, text_of, wordings
from curate.decontamination.problem_keys import keys
from curate.reading.tables import Table, known_options
from curate.reading.values import optional_text

# Contests in a window are held out of what these sources publish, whether or not their texts are at hand.
SOURCES = ("livecodebench",)
_COLUMNS = ("question_content", "problem", "question_id", "question_title", "platform", "contest_date")


def read(table: Table) -> Iterator[Item]:
    """An item for each problem. Raises CurateError on a row without text."""
    known_options(table, ())
    for name, row in rows(table, _COLUMNS):
        number, title = optional_text(row["question_id"]), optional_text(row["question_title"])
        yield Item(
            id=number or name,
            texts=wordings(text_of(table, name, row, ("question_content", "problem"))),
            keys=keys(platform=optional_text(row["platform"]), names=(number, title)),
            date=optional_text(row["contest_date"])[:10],
        )
