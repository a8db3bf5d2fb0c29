"""A dataset made from another one by taking rows away: what both of them share."""

import copy
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from curate.dataset.reader import readable
from curate.dataset.workspace import MANIFEST
from curate.dataset.writer import ContentHash
from curate.errors import CurateError
from curate.problem import Rejection

Manifest = dict[str, Any]


def own_manifest(folder: Path) -> Manifest | None:
    """The manifest of a dataset that curate wrote; None for any other file or folder.

    Raises CurateError on a folder that looks like such a dataset and has lost its manifest: what was rejected would
    be taken for rows.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if {"plan", "counts", "content_hash"} <= manifest.keys() and isinstance(manifest["plan"], dict):
            return manifest if (folder / "data").is_dir() else None
    except (OSError, ValueError, AttributeError):
        pass
    if (folder / "data").is_dir() and (folder / "rejected").is_dir():
        raise CurateError(
            f"{folder}: has data/ and rejected/, but no manifest.json that can be read. Build it again, or give "
            f"{folder / 'data'}."
        )
    return None


def rows_of(folder: Path | None, config: str) -> list[dict[str, Any]]:
    """Rows of one of the smaller tables of a dataset; none if it has no such table."""
    import pyarrow.parquet as pq

    files = sorted((folder / config).glob("*.parquet")) if folder else []
    rows: list[dict[str, Any]] = []
    for file in files:
        with readable(file):
            rows += pq.read_table(file).to_pylist()
    return rows


def apart(out: Path, given: Path, files: Iterable[Path]) -> None:
    """Raises CurateError if writing to `out` would touch what is read from the file or folder `given`."""
    target = _real(out)
    if (given.is_dir() and target.is_relative_to(_real(given))) or any(
        _real(file).is_relative_to(target) for file in files
    ):
        raise CurateError(f"{out} holds the dataset that is read, or lies in it. Choose another --out.")


def _real(path: Path) -> Path:
    """Where links lead to. Path.resolve raises RuntimeError on a link to itself."""
    return Path(os.path.realpath(path))


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
