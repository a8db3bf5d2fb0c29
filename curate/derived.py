"""A dataset made from another one by taking rows away: what both of them share."""

import copy
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.output import ContentHash
from curate.problem import Rejection
from curate.workspace import MANIFEST

Manifest = dict[str, Any]


def manifest_of(folder: Path) -> Manifest | None:
    """The manifest of a dataset that curate wrote; None for any other file or folder."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    ours = isinstance(manifest, dict) and {"plan", "counts", "content_hash"} <= manifest.keys()
    return manifest if ours and (folder / "data").is_dir() else None


def rows_of(folder: Path | None, config: str) -> list[dict[str, Any]]:
    """Rows of one of the smaller tables of a dataset; none if it has no such table."""
    import pyarrow.parquet as pq

    files = sorted((folder / config).glob("*.parquet")) if folder else []
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def apart(out: Path, given: Path, files: Iterable[Path]) -> None:
    """Raises CurateError if writing to `out` would touch what is read from the file or folder `given`."""
    target = out.resolve()
    if (given.is_dir() and target.is_relative_to(given.resolve())) or any(
        file.resolve().is_relative_to(target) for file in files
    ):
        raise CurateError(f"{out} holds the dataset that is read, or lies in it. Choose another --out.")


def rebuilt(
    before: Manifest,
    plan: Any,
    removed: Iterable[Rejection],
    files: Sequence[Path],
    rejected: Iterable[dict[str, Any]],
) -> Manifest:
    """The manifest of a build with what changes: counts and hash, from the files that stay and all rejected rows."""
    import pyarrow.parquet as pq

    counts = copy.deepcopy(before["counts"])
    content = ContentHash()
    for count in counts.values():
        count["kept"] = count["verified"] = 0
    for path in files:
        with pq.ParquetFile(path) as file:
            for row in (row for batch in file.iter_batches(batch_size=16) for row in batch.to_pylist()):
                content.add(row)
                counts[row["source"]]["kept"] += 1
                counts[row["source"]]["verified"] += row["verified"]
    for row in rejected:
        content.add(row)
    for rejection in removed:
        by_reason = counts[rejection.source]["rejected"].setdefault(rejection.stage, {})
        by_reason[rejection.reason] = by_reason.get(rejection.reason, 0) + 1
    return {**before, "plan": plan, "content_hash": content.hexdigest(), "counts": counts}
