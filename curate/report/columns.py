"""Read the number columns of the kept rows, once and without the other columns. They take 8 bytes per value."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from curate.dataset.dataset import Dataset

if TYPE_CHECKING:
    from curate.report.histogram import Values

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
