"""What near-duplicates were removed: how similar they were, between which sources, and the least similar ones."""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from curate.dataset.folder import DatasetFolder
from curate.problem import Problem, Rejection
from curate.reading.prompt_templates import without_template
from curate.report.histogram import histogram

N_PAIRS = 10
# Enough to judge by, and a bound on what a page can become.
STATEMENT_CHARACTERS = 4_000
_DETAIL = re.compile(r"cluster=(.*) kept=(.*) jaccard=([\d.]+)", re.DOTALL)


def least_similar(removed: Iterable[Rejection], load: Callable[[str], Problem]) -> list[dict[str, Any]]:
    """The removed near-duplicates that resemble the row kept instead least, with both statements as compared.

    They are where a mistake is likeliest. `load` fetches a problem by its id; rejected rows have no statement in the
    dataset, so this is for the build to call, and the report keeps what it gives.
    """
    found = (
        (float(match[3]), rejection.id, match[2])
        for rejection in removed
        if rejection.reason == "duplicate_near" and (match := _DETAIL.fullmatch(rejection.detail))
    )
    return [
        {"jaccard": similarity, "removed": _side(load(id)), "kept": _side(load(kept))}
        for similarity, id, kept in heapq.nsmallest(N_PAIRS, found)
    ]


def duplicates(dataset: DatasetFolder, threshold: float | None) -> dict[str, Any]:
    """Counts of removed rows by source of the removed and of the kept row, and the similarities of near ones.

    threshold: the least similarity at which the build removed a row, where it is known.
    """
    import numpy as np

    near: list[float] = []
    pairs: Counter[tuple[str, str]] = Counter()
    n_exact = 0
    for source, reason, kept, similarity in _removed(dataset):
        pairs[source, kept.partition("/")[0]] += 1
        if reason == "duplicate_near":
            near.append(similarity)
        else:
            n_exact += 1
    names = sorted({name for pair in pairs for name in pair})
    begin = int(100 * min([threshold or 1.0, *near]) + 1e-9) // 2 * 2
    edges = [step / 100 for step in range(min(begin, 98), 101, 2)]
    return {
        "n_exact": n_exact,
        "n_near": len(near),
        "threshold": threshold,
        "similarity": histogram(np.array(near, dtype=np.float64), edges, trim=False),
        "sources": names,
        "removed_by_kept": [[pairs[removed, kept] for kept in names] for removed in names],
    }


def _removed(dataset: DatasetFolder) -> Iterator[tuple[str, str, str, float]]:
    """Source, reason, id of the row kept instead and similarity, of each row that another one replaced."""
    names = ("source", "stage", "reason", "detail")
    if not dataset.columns("rejected").issuperset(names):
        return
    for batch in dataset.batches("rejected", names, rows=4096):
        columns = (batch.column(name).to_pylist() for name in names)
        for source, stage, reason, detail in zip(*columns, strict=True):
            if stage == "dedup" and (match := _DETAIL.fullmatch(detail)):
                yield source, reason, match[2], float(match[3])


def _side(problem: Problem) -> dict[str, str]:
    text = without_template(problem.statement)
    cut = text if len(text) <= STATEMENT_CHARACTERS else text[: STATEMENT_CHARACTERS - 4] + " ..."
    return {"id": problem.id, "title": problem.title, "statement": cut}
