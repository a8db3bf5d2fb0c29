"""Columns of numbers, and histograms: counts between edges, with minimum, median and maximum."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from curate.dataset.dataset import Dataset

if TYPE_CHECKING:
    import numpy as np

    Values = np.ndarray[tuple[int], np.dtype[np.float64]]

# Edges are close together where most problems are: 5 and 8 tests are very different, but 305 and 308 are not.
COUNT_EDGES = (0, 1, 2, 3, 4, 5, 6, 8, 11, 16, 21, 31, 51, 76, 101, 151, 201, 501, 1001, 10_001, math.inf)
SECONDS_EDGES = (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, math.inf)
SHARE_EDGES = tuple(round(0.05 * step, 2) for step in range(21))


def histogram(values: "Values", edges: Sequence[float], *, trim: bool = True) -> dict[str, Any]:
    """Count the values between neighbouring edges, including the lower edge.

    A value at the last edge belongs to the last count. nan stands for an unknown value; these are counted separately.
    With trim, empty ranges at both ends are left out. An edge at infinity becomes None.
    """
    import numpy as np

    known = values[~np.isnan(values)]
    counts = np.histogram(known, np.array(edges))[0]
    filled = np.flatnonzero(counts)
    begin, end = (int(filled[0]), int(filled[-1]) + 1) if trim and len(filled) else (0, len(counts))
    return {
        "edges": [None if math.isinf(edge) else edge for edge in edges[begin : end + 1]],
        "counts": counts[begin:end].tolist(),
        **summary(values),
    }


def summary(values: "Values") -> dict[str, Any]:
    """Return the numbers of known and unknown (nan) values, and the minimum, median and maximum (None if unknown)."""
    import numpy as np

    known = values[~np.isnan(values)]
    least, middle, most = (
        (float(known.min()), float(np.median(known)), float(known.max())) if len(known) else (None, None, None)
    )
    return {"n": len(known), "unknown": len(values) - len(known), "min": least, "median": middle, "max": most}


_BATCH_ROWS = 65_536


def numeric_columns(dataset: Dataset, names: Sequence[str]) -> "dict[str, Values]":
    """Return the named columns, as far as the table `data` has them, with null as nan and false as 0."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    present = sorted(dataset.columns("data").intersection(names))
    parts: dict[str, list[Values]] = {name: [] for name in present}
    for batch in dataset.batches("data", present, rows=_BATCH_ROWS) if present else ():
        for name in present:
            column = pc.cast(batch.column(name), pa.float64())
            parts[name].append(column.to_numpy(zero_copy_only=False))
    return {name: np.concatenate(arrays) if arrays else np.empty(0) for name, arrays in parts.items()}
