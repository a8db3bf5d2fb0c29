"""The file of a checkpoint that holds the batch which was sampled ahead: Parquet, one row for each completion.

Tokens and log-probabilities are typed columns, so that the file has a few bytes for each token, and numbers come back
to the last bit. Lists of pairs, which are short, are JSON.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from train.rollouts.batch_collector import Group, Rollout

_GROUP = "group"  # the column with the number of a completion's group
_COLUMNS = {
    "reward_components": "parts",
    "step_rewards": "steps",
    "sampled_mask": "drawn",
}  # other than the fields' names


def write_groups(path: Path, groups: Sequence[Group]) -> None:
    """Write the groups to a file. Raises OSError if it cannot be written."""
    import pyarrow as pa
    import pyarrow.parquet

    rollouts = [rollout for group in groups for rollout in group]
    columns = {_GROUP: pa.array([number for number, group in enumerate(groups) for _ in group], pa.int32())}
    for name, kind in get_type_hints(Rollout).items():
        columns[_COLUMNS.get(name, name)] = _column([getattr(rollout, name) for rollout in rollouts], kind)
    # Most log-probabilities are float32 in float64, and versions hardly change: both shrink to less than half.
    pyarrow.parquet.write_table(pa.table(columns), path, compression="zstd", use_dictionary=["versions.list.element"])


def read_groups(path: Path) -> tuple[Group, ...]:
    """Return the groups in a file. Raises OSError or ValueError if it is damaged."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    kinds = get_type_hints(Rollout)
    names = [(each.name, _COLUMNS.get(each.name, each.name)) for each in fields(Rollout)]
    columns = [_values(table.column(column).combine_chunks(), kinds[name]) for name, column in names]
    groups: list[list[Rollout]] = []
    for number, values in zip(table.column(_GROUP).to_pylist(), zip(*columns, strict=True), strict=True):
        while len(groups) <= number:
            groups.append([])
        groups[number].append(Rollout(*values))
    return tuple(map(tuple, groups))


def _column(values: Sequence[Any], kind: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    scalars = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), int: pa.int64()}
    if kind in scalars:
        return pa.array(values, scalars[kind], from_pandas=False)
    element = _element(kind)
    if get_origin(element) is tuple:
        return pa.array(list(map(json.dumps, values)), pa.string())
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    flat = np.fromiter(_chain(values), np.float64 if element is float else np.int64, count=int(ends[-1]))
    if element is not float:
        flat = flat.astype(np.int32, casting="same_kind")
    return pa.LargeListArray.from_arrays(pa.array(ends), pa.array(flat, from_pandas=False))


def _values(column: Any, kind: Any) -> list[Any]:
    element = _element(kind)
    if element is None:
        values: list[Any] = column.to_pylist()
        return values
    if get_origin(element) is tuple:
        return [tuple(map(tuple, json.loads(text))) for text in column.to_pylist()]
    flat = column.values.to_numpy(zero_copy_only=False).tolist()  # much faster than to_pylist of the lists
    if element is bool:
        flat = list(map(bool, flat))
    return [tuple(flat[first:end]) for first, end in pairwise(column.offsets.to_pylist())]


def _element(kind: Any) -> Any:
    """Return the type of the elements of tuple[element, ...], or None for another type."""
    return get_args(kind)[0] if get_origin(kind) is tuple else None


def _chain(values: Iterable[Iterable[Any]]) -> Iterable[Any]:
    return (element for value in values for element in value)
