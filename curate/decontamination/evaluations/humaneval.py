"""HumanEval, HumanEval+ and other sets in their format: a prompt is a function with a docstring and without a body.

Copies often have only the docstring, so a long enough docstring is also a text of the item.
"""

import re
from collections.abc import Iterator

from curate.decontamination.evaluation_set import EvaluationItem, derive_texts, extract_text, read_named_rows
from curate.reading.tables import TableFiles

_DOCSTRING = re.compile(r"(\"\"\"|''')(.*?)(?:\1|\Z)", re.DOTALL)


def read(table: TableFiles) -> Iterator[EvaluationItem]:
    """Yield an item for each prompt. Raises CurateError on a row without a prompt."""
    for name, row in read_named_rows(table, ("task_id", "prompt")):
        prompt = extract_text(table, name, row, ("prompt",))
        # Helper functions come first, so the last docstring is that of the function to write.
        docstrings = _DOCSTRING.findall(prompt)
        yield EvaluationItem(
            id=row["task_id"] or name, texts=derive_texts(prompt, docstrings[-1][1] if docstrings else None)
        )
