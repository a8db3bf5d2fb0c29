"""CodeElo and other sets of Codeforces problems, as published or as in DeepCoder's dataset (column `problem`)."""

from collections.abc import Iterator

from curate.decontamination.evaluation_set import EvaluationItem, derive_texts, extract_text, read_named_rows
from curate.decontamination.problem_keys import derive_keys
from curate.reading.tables import TableFiles
from curate.reading.values import optional_text

_IDS = ("problem_id", "id")
_TEXTS = ("problem", "description", "statement")
_PARTS = ("input", "output", "input_format", "output_format", "interaction", "note")


def read(table: TableFiles) -> Iterator[EvaluationItem]:
    """Yield an item for each problem. Raises CurateError on a row without text."""
    for name, row in read_named_rows(table, (*_IDS, *_TEXTS, *_PARTS, "url", "title")):
        text = extract_text(table, name, row, _TEXTS)
        # DeepCoder appends topics and limits, unlike all other copies.
        text = text.partition("\nTags:\n")[0]
        parts = [optional_text(row[part]) for part in _PARTS]
        id = next((str(row[column]) for column in _IDS if row[column]), "")
        yield EvaluationItem(
            id=id or name,
            texts=derive_texts("\n\n".join(filter(None, (text, *parts))), text if any(parts) else None),
            keys=derive_keys(url=optional_text(row["url"]), platform="codeforces", names=(id,)),
        )
