"""What earlier comparisons with evaluation sets say about all rows of a merged dataset.

A set counts only if every dataset was compared with it: with the same files under the same name, and for the same
window of dates. Rows of a dataset that was not compared could contain its items.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from curate.derivation import table_rows
from curate.manifest import EvaluationSource, SetCounts
from curate.merging.inputs import MergeInput

Key = tuple[str, str | None, tuple[str, ...]]


def _key(plan: EvaluationSource) -> Key:
    return plan.name, plan.window, tuple(file.sha256 for file in plan.files)


def shared_sets(inputs: Sequence[MergeInput]) -> dict[str, list[tuple[str, SetCounts]]]:
    """Return for each set that all datasets were compared with its name and its counts in each of them."""
    first, *others = [
        {_key(counts): (name, counts) for name, counts in dataset.manifest.decontamination.items()}
        for dataset in inputs
    ]
    return {
        name: [(name, counts), *(sets[key] for sets in others)]
        for key, (name, counts) in first.items()
        if all(key in sets for sets in others)
    }


def missing_sets(inputs: Sequence[MergeInput]) -> dict[str, list[str]]:
    """Return for each set that does not count the locations of the datasets that were not compared with it."""
    known = [{_key(counts) for counts in dataset.manifest.decontamination.values()} for dataset in inputs]
    names = {_key(counts): name for d in inputs for name, counts in d.manifest.decontamination.items()}
    missing = {
        key: [dataset.given_location for dataset, keys in zip(inputs, known, strict=True) if key not in keys]
        for key in names
    }
    return {f"{names[key]} {key[1] or ''}".strip(): locations for key, locations in missing.items() if locations}


def merge_hits(inputs: Sequence[MergeInput]) -> list[dict[str, Any]]:
    """Return the hits of the sets that count. Positions count on from one dataset to the next."""
    shared = shared_sets(inputs)
    hits: list[dict[str, Any]] = []
    for dataset in inputs:
        before = {  # rows of the datasets before this one, by the name of the set
            in_each[dataset.index][1].name: sum(counts.rows for _, counts in in_each[: dataset.index])
            for in_each in shared.values()
        }
        rows = table_rows(dataset.location / "contamination")
        hits += ({**hit, "row": hit["row"] + before[hit["set"]]} for hit in rows if hit["set"] in before)
    return sorted(hits, key=lambda hit: hit["row"])


def merge_set_counts(inputs: Sequence[MergeInput], hits: Sequence[Mapping[str, Any]]) -> dict[str, SetCounts]:
    """Return the counts of the sets that count, over the rows of all datasets."""
    return {name: _sum([counts for _, counts in in_each], hits) for name, in_each in shared_sets(inputs).items()}


def _sum(counts: Sequence[SetCounts], hits: Sequence[Mapping[str, Any]]) -> SetCounts:
    first = counts[0]
    rules: Counter[str] = Counter()
    for count in counts:
        rules.update(count.removed_by_rule)
    rows, removed = sum(count.rows for count in counts), sum(count.removed for count in counts)
    hits_of_set = (hit for hit in hits if hit["set"] == first.name)
    items_found = {hit["item"] for hit in hits_of_set if hit["verdict"] == "removed" and hit["rule"] != "in_window"}
    warnings = dict.fromkeys(count.warning for count in counts if count.warning)
    return SetCounts(
        name=first.name,
        window=first.window,
        files=first.files,
        items=first.items,
        items_found=len(items_found),
        rows=rows,
        removed=removed,
        removal_rate=round(removed / max(rows, 1), 6),
        removed_by_rule=dict(sorted(rules.items())),
        n_to_review=sum(count.n_to_review for count in counts),
        warning=" ".join(warnings) or None,
    )
