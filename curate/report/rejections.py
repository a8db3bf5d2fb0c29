"""Count the rejected rows by stage, reason, cause and source."""

from collections import Counter
from typing import Any

from curate.dataset.dataset import Dataset
from curate.report.funnel import STAGES

_BATCH_ROWS = 65_536


def build_rejection_section(dataset: Dataset) -> list[dict[str, Any]]:
    """Return an entry for each stage, reason and cause that occurs. Each stage begins with its most frequent one."""
    names = [name for name in ("source", "stage", "reason", "cause") if name in dataset.columns("rejected")]
    if not {"source", "stage", "reason"}.issubset(names):
        return []
    counted: Counter[tuple[str, ...]] = Counter()
    for batch in dataset.batches("rejected", names, rows=_BATCH_ROWS):
        counted.update(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
    by_cause: dict[tuple[str, str, str], dict[str, int]] = {}
    for (source, stage, reason, *rest), n in sorted(counted.items()):
        cause = rest[0] if rest else ""
        by_cause.setdefault((stage, reason, cause), {})[source] = n
    entries = [
        {"stage": stage, "reason": reason, "cause": cause, "n": sum(sources.values()), "sources": sources}
        for (stage, reason, cause), sources in by_cause.items()
    ]
    return sorted(entries, key=sort_key)


def sort_key(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key by which entries for a stage, reason and cause are sorted."""
    stage = entry["stage"]
    place = STAGES.index(stage) if stage in STAGES else len(STAGES)
    return place, stage, -entry["n"], entry["reason"], entry["cause"]
