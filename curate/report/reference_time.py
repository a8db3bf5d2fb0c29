"""Compare the CPU time that references need for their slowest test with the time limits for submissions."""

import heapq
from typing import TYPE_CHECKING, Any

from curate.dataset.dataset import Dataset
from curate.report.histogram import SECONDS_EDGES, histogram

if TYPE_CHECKING:
    from curate.report.histogram import Values

N_TIGHTEST = 5
_SLOWEST, _LIMIT = "slowest_cpu_seconds", "time_limit_seconds"


def reference_runtime_section(dataset: Dataset, columns: "dict[str, Values]") -> dict[str, Any] | None:
    """Return histograms of times and limits with the same edges, and the problems with the least time to spare.

    Returns None if the dataset has no such columns.
    """
    import numpy as np

    if _SLOWEST not in columns or _LIMIT not in columns:
        return None
    slowest, limits = columns[_SLOWEST], columns[_LIMIT]
    both = histogram(np.concatenate((slowest, limits)), SECONDS_EDGES)
    edges = [float("inf") if edge is None else edge for edge in both["edges"]]
    return {
        "slowest": histogram(slowest, edges, trim=False),
        "limit": histogram(limits, edges, trim=False),
        "tightest": _tightest(dataset),
    }


def _tightest(dataset: Dataset) -> list[dict[str, Any]]:
    best: list[tuple[float, str, float, float]] = []
    for batch in dataset.batches("data", ("id", _SLOWEST, _LIMIT), rows=65_536):
        ids, slowest, limits = (batch.column(name).to_pylist() for name in ("id", _SLOWEST, _LIMIT))
        shares = (
            (-seconds / limit, id, seconds, limit)
            for id, seconds, limit in zip(ids, slowest, limits, strict=True)
            if seconds is not None and limit
        )
        best = heapq.nsmallest(N_TIGHTEST, [*best, *heapq.nsmallest(N_TIGHTEST, shares)])
    return [
        {"id": id, "slowest_cpu_seconds": slowest, "time_limit_seconds": limit, "share": -share}
        for share, id, slowest, limit in best
    ]
