"""Histograms, computed by DuckDB: the count of each bin, and the minimum, median and maximum."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from curate.dataset.query import query

if TYPE_CHECKING:
    import pyarrow as pa

# Bins are narrow where most problems are: 5 and 8 tests differ much, but 305 and 308 do not.
COUNT_EDGES = (0, 1, 2, 3, 4, 5, 6, 8, 11, 16, 21, 31, 51, 76, 101, 151, 201, 501, 1001, 10_001, math.inf)
SECONDS_EDGES = (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, math.inf)
SHARE_EDGES = tuple(round(0.05 * step, 2) for step in range(21))

Histogram = dict[str, Any]


def compute_histograms(
    rows: "pa.RecordBatchReader",
    edges: Mapping[str, Sequence[float]],
    aggregates: Sequence[str] = (),
    where: str = "true",
) -> dict[str, Any]:
    """Count the values of columns by bin. A bin includes its lower edge, and the last one also its upper edge.

    edges       edges of the bins, by column
    aggregates  further SQL aggregates with names, to compute in the same pass
    where       SQL condition on the rows to count; default: all

    Nulls and NaN count as unknown. An infinite edge becomes None.
    """
    numbers = ", ".join(f"nullif(TRY_CAST({name} AS DOUBLE), 'nan'::DOUBLE) AS {name}" for name in edges)
    outputs = [f"{_format_aggregates(name, of_column)} AS {name}" for name, of_column in edges.items()]
    sql = f"SELECT {', '.join([*outputs, *aggregates])} FROM (SELECT * REPLACE ({numbers}) FROM rows WHERE {where})"
    (row,) = query(sql, rows=rows)
    for name, of_column in edges.items():
        row[name] = {"edges": [None if math.isinf(edge) else edge for edge in of_column]} | row[name]
    return row


def trim_empty_ends(*histograms: Histogram) -> list[Histogram]:
    """Remove the bins at both ends that are empty in all of these histograms, which have the same edges."""
    filled = [index for index, counts in enumerate(zip(*(h["counts"] for h in histograms), strict=True)) if any(counts)]
    begin, end = (filled[0], filled[-1] + 1) if filled else (0, None)
    kept_edges = slice(begin, None if end is None else end + 1)
    return [h | {"edges": h["edges"][kept_edges], "counts": h["counts"][begin:end]} for h in histograms]


def _format_aggregates(column: str, edges: Sequence[float]) -> str:
    counts = []
    for low, high in zip(edges, edges[1:], strict=False):
        upper = "" if math.isinf(high) else f" AND {column} {'<=' if high == edges[-1] else '<'} {high:e}"
        counts.append(f"count(*) FILTER ({column} >= {low:e}{upper})")
    known = f"'n': count({column}), 'unknown': count(*) - count({column})"
    spread = f"'min': min({column}), 'median': median({column}), 'max': max({column})"
    return f"{{'counts': [{', '.join(counts)}], {known}, {spread}}}"
