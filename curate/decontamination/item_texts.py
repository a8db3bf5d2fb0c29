"""Read the rows of an evaluation set, and find the texts by which the problem in a row is recognised."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from curate.errors import CurateError
from curate.reading.prompt_templates import prompt_texts, strip_prompt_template
from curate.reading.tables import TableFiles, UnreadableRow, read_rows
from curate.text.ngrams import words

# Prose shorter than this is a sentence that anybody might write.
MIN_PROSE = 16
# These words end the story. Examples and formats follow, which copies of a problem write differently or leave out.
_END_OF_PROSE = re.compile(
    r"^[ \t#*\\-]*(?:samples?|examples?|constraints|input|output|note)\b[ \w]{0,12}[ \t:*-]*$"
    r"|>>>|\bexamples?\s*\d*\s*:",
    re.IGNORECASE | re.MULTILINE,
)


def read_named_rows(table: TableFiles, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, row) for the rows of a set. A name consists of the file and the row's zero-based place in it.

    columns: the columns to read; those that the set does not have are left out

    Raises CurateError for a line that cannot be read, since an incomplete set cannot rule anything out.
    """
    for path in table.files:
        for place, row in enumerate(read_rows(replace(table, files=(path,)), (), columns)):
            if isinstance(row, UnreadableRow):
                raise CurateError(f"{path}: {row.location}: {row.detail}. Fetch it again.")
            yield f"{path.name}:{place}", row


def item_text(table: TableFiles, name: str, row: dict[str, Any], columns: Sequence[str]) -> str:
    """Return the text in the first column that has any, or what the user says if it has messages of a chat.

    Raises CurateError if no column has text.
    """
    texts = prompt_texts(next((row[column] for column in columns if row[column]), None))
    text = "\n\n".join(texts or ())
    if not text.strip():
        raise CurateError(f"{table.location}: no text in {name}. Columns that may hold it: {', '.join(columns)}.")
    return text


def text_variants(text: str, prose: str | None = None) -> tuple[str, ...]:
    """Return the text without its prompt template and, if it is long enough to be recognised, the prose on its own.

    prose: the part of the text that tells the story; None: the beginning of the text
    """
    text = strip_prompt_template(text)
    end = _END_OF_PROSE.search(text if prose is None else prose)
    prose = (text if prose is None else prose)[: end.start() if end else None].strip()
    return (text, prose) if len(words(prose)) >= MIN_PROSE and prose != text else (text,)
