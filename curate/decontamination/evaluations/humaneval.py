"""HumanEval, HumanEval+ and other sets in their format: a prompt is a function with a docstring and without a body.

Copies often keep only the docstring, so the prose in it is also an item's text on its own if it is long enough.
"""

import re
from collections.abc import Iterator

from curate.decontamination.evaluation_set import EvaluationItem, item_text, read_named_rows, text_variants
from curate.reading.tables import TableFiles

_DOCSTRING = re.compile(r"(\"\"\"|''')(.*?)(?:\1|\Z)", re.DOTALL)


def read(table: TableFiles) -> Iterator[EvaluationItem]:
    """Yield an item for each prompt. Raises CurateError on a row without a prompt."""
    for name, row in read_named_rows(table, ("task_id", "prompt")):
        prompt = item_text(table, name, row, ("prompt",))
        # Helper functions come first, so the last docstring is that of the function to write.
        docstrings = _DOCSTRING.findall(prompt)
        yield EvaluationItem(
            id=row["task_id"] or name, texts=text_variants(prompt, docstrings[-1][1] if docstrings else None)
        )
