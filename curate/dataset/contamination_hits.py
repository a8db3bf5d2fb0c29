"""The table `contamination/`: text that training rows and evaluation items have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from curate.text.document import Share, Table

# The strongest rule comes first; decontamination/contamination_search.py explains them.
RULES = ("same_key", "in_window", "same_text", "whole_item", "contained")

HIT_COLUMNS = {
    "row": ("int32", "position among the compared rows, from 0"),
    "id": ("string", "id of the row, or its file and position"),
    "source": ("string", "source of the row"),
    "set": ("string", "name of the evaluation set"),
    "item": ("string", "id of the item, or its file and position; for in_window, the window"),
    "rule": ("string", ", ".join(RULES)),
    "score": ("float64", "for `contained`, share of the item's word 8-grams that the row has; otherwise 1"),
    "span": ("string", "the longest sequence of words in common, as in the row; or the key, or the date"),
    "verdict": ("string", "removed or review"),
}


@dataclass(frozen=True, slots=True)
class ContaminationHit:
    """A match of a row and an evaluation item. HIT_COLUMNS documents the fields."""

    row: int
    id: str
    source: str
    set: str
    item: str
    rule: str
    score: float
    span: str
    verdict: str


def tabulate_set_counts(sets: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a table with a row for each evaluation set. sets: SetCounts as JSON, by the name of the set"""
    header = ["evaluation set", "items", "rows compared", "removed", "rate", "by rule", "to review"]
    rows = []
    for name, count in sets.items():
        set_and_window = f"{name} {count['window'] or ''}".strip()
        rules = ", ".join(f"{rule} {n}" for rule, n in count["rules"].items()) or "-"
        rate = Share(count["removal_rate"])
        rows.append([set_and_window, count["items"], count["rows"], count["removed"], rate, rules, count["review"]])
    return Table(header, rows)
