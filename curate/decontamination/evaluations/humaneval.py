"""HumanEval, HumanEval+ and others of their shape: a prompt is a function with a docstring, waiting for its body.

Copies often keep the docstring and lose the rest, so its prose counts by itself where it is long enough.
"""

import re
from collections.abc import Iterator

from curate.decontamination.evaluation_sets import Item, rows, text_of, wordings
from curate.reading.tables import Table, known_options

_DOCSTRING = re.compile(r"(\"\"\"|''')(.*?)(?:\1|\Z)", re.DOTALL)


def read(table: Table) -> Iterator[Item]:
    """An item for each prompt. Raises CurateError on a row without one."""
    known_options(table, ())
    for name, row in rows(table, ("task_id", "prompt")):
        prompt = text_of(table, name, row, ("prompt",))
        # Helper functions come first, so the last docstring is that of the function to write.
        docstrings = _DOCSTRING.findall(prompt)
        yield Item(id=row["task_id"] or name, texts=wordings(prompt, docstrings[-1][1] if docstrings else None))
