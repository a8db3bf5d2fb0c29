"""A dataset made from another one by removing rows.

Callers decide which rows to remove, which tables to write beside the remaining rows, and what to add to the manifest.
Every such dataset is written here. Rows that stay are copied unchanged.
"""

import hashlib
import heapq
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from curate.dataset import card, difficulty_section, external_card, output_folder
from curate.dataset.dataset_reader import DatasetReader
from curate.dataset.digests import RowHasher, write_digests
from curate.dataset.evidence import EVIDENCE, EVIDENCE_COLUMNS, SUSPECT_REASON, evidence_row, sort_key
from curate.dataset.files import DatasetFiles, find_dataset_files, hash_files
from curate.dataset.folder import BATCH_ROWS, DatasetFolder
from curate.dataset.integrity import require_intact
from curate.dataset.table_files import batches, side_table_suffix, table_files, write_table_as
from curate.dataset.writer import REJECTED_COLUMNS, rejected_row, write_table
from curate.errors import CurateError
from curate.manifest import Manifest, Plan, SourceCounts, StepPlan, with_name_and_date
from curate.problem import Rejection
from curate.report.report_files import load_duplicate_section, write_report

Row = dict[str, Any]
Columns = dict[str, tuple[str, str]]  # type and meaning by name
DIFFICULTY = "difficulty"  # the folder of the table of solve rates


@dataclass(frozen=True, slots=True)
class ParentDataset:
    """The dataset that rows are removed from. manifest: None if curate did not write it."""

    location: Path
    manifest: Manifest | None
    files: DatasetFiles

    @property
    def is_curated(self) -> bool:
        """Whether curate built the dataset, so that its rows are problems."""
        return self.manifest is not None and self.manifest.build is not None

    def table(self, folder: str) -> list[Row]:
        """Return the rows of one of the smaller tables; none if curate did not write the dataset."""
        return table_rows(self.location / folder) if self.manifest is not None else []

    def check_no_overlap(self, out: Path) -> None:
        """Raise CurateError if writing to `out` would overwrite files that are being read."""
        target = _real(out)
        inside = self.location.is_dir() and target.is_relative_to(_real(self.location))
        if inside or any(_real(file).is_relative_to(target) for file in self.files.table.files):
            raise CurateError(f"{out} contains the dataset, or lies inside it. Choose another --out.")


def open_built_dataset(folder: Path) -> ParentDataset:
    """Open a finished dataset that curate built, to remove rows from it. Raises CurateError for any other folder."""
    manifest = output_folder.read_manifest(folder)
    if manifest.build is None:
        raise CurateError(f"{folder}: curate did not build this dataset, so its rows are not problems.")
    return ParentDataset(folder, manifest, find_dataset_files(f"{folder}/data"))


def plan_of_step(origin: ParentDataset, step: str, options: Mapping[str, Any], removed: Iterable[Rejection]) -> Plan:
    """Return the plan of the dataset that a step makes by removing rows from a dataset that curate built.

    step     its name, such as "filter"
    options  what was asked for
    removed  the rejections of the rows that the step removes
    """
    assert origin.manifest is not None
    before = origin.manifest
    ids = sorted(rejection.id for rejection in removed)
    digest = hashlib.sha256(json.dumps(ids).encode()).hexdigest()
    return replace(before.plan, steps=(*before.plan.steps, StepPlan(step, before.content_hash, options, digest)))


def _complete(manifest: Manifest) -> Manifest:
    return manifest


@dataclass(frozen=True, slots=True)
class Derivation:
    """How the new dataset differs from its origin.

    plan                         plan of the new dataset
    n_rows                       number of rows of the origin
    removed                      rejections of the rows to remove, by the positions of these rows
    tables                       rows and columns of all tables other than `data`, `rejected` and `evidence`, by the
                                 name of the table's folder
    complete_manifest            a function that completes the manifest, which already has the counts and the content
                                 hash; left out: nothing is missing
    removed_rows_kept_elsewhere  whether the removed rows are in another dataset, which then has the evidence about them
    recipe                       the recipe of the new dataset, if one can express how it was made
    """

    plan: Plan
    n_rows: int
    removed: Mapping[int, Rejection]
    tables: Mapping[str, tuple[Sequence[Row], Columns]]
    complete_manifest: Callable[[Manifest], Manifest] = _complete
    removed_rows_kept_elsewhere: bool = False
    recipe: Mapping[str, Any] | None = None


def find_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a dataset that curate wrote; None for any other file or folder.

    Raises CurateError for a folder that looks like such a dataset but has lost its manifest, because its rejected rows
    would be mistaken for rows of the dataset.
    """
    try:
        return output_folder.read_manifest(folder)
    except CurateError:
        if (folder / "data").is_dir() and (folder / "rejected").is_dir():
            raise CurateError(
                f"{folder}: has data/ and rejected/, but no manifest.json that can be read. Build it again, or give "
                f"{folder / 'data'}."
            ) from None
        return None


def table_rows(folder: Path) -> list[Row]:
    """Return the rows of a table, none if it has no folder. Raises CurateError if a file is damaged."""
    rows: list[Row] = []
    for file in table_files(folder):
        for batch in batches(file, None, BATCH_ROWS):
            rows += batch.to_pylist()
    return rows


def write_derived(origin: ParentDataset, derivation: Derivation, out: Path, *, overwrite: bool) -> Manifest:
    """Write the dataset that the derivation describes into the folder `out` and return its manifest.

    Raises CurateError if the rows of the origin are not those that its manifest describes: the manifest of the new
    dataset would hide it.
    """
    if origin.manifest is not None:
        require_intact(origin.location, advice="Build it again, or fetch it again.")
    with output_folder.open_work_folder(out, derivation.plan, overwrite=overwrite) as work:
        final = work / "final"
        shutil.rmtree(final, ignore_errors=True)  # an earlier run that was killed may have left an incomplete copy
        files = origin.files.copy(derivation.removed, final / "data")
        rejected = [*origin.table("rejected"), *map(rejected_row, derivation.removed.values())]
        rejected.sort(key=lambda row: tuple(row[name] for name in ("id", "stage", "reason", "detail")))
        suffix = ".parquet" if origin.is_curated else side_table_suffix(files[0].suffix)
        write_table_as(suffix, iter(rejected), REJECTED_COLUMNS, final / "rejected")
        for folder, (rows, columns) in derivation.tables.items():
            write_table_as(suffix, iter(rows), columns, final / folder)
        _copy_other_tables(origin, derivation, final)
        if origin.manifest is not None and origin.is_curated:
            write_table(_evidence(origin.location, origin.manifest, derivation), EVIDENCE_COLUMNS, final / EVIDENCE)
        manifest = with_name_and_date(
            derivation.complete_manifest(_counted(origin, derivation, files, rejected, final)), out
        )
        (card.write if origin.is_curated else external_card.write)(manifest, final)
        if DIFFICULTY in derivation.tables:
            solve_rates, _ = derivation.tables[DIFFICULTY]
            difficulty_section.update_card(final, list(solve_rates), manifest.solve_rate)
        write_report(final, manifest, load_duplicate_section(origin.location))
        return output_folder.commit_output(work, out, manifest)


def _copy_other_tables(origin: ParentDataset, derivation: Derivation, final: Path) -> None:
    """Copy the tables about rows that were compared or rejected earlier, as far as the caller did not change them."""
    changed = {"data", "rejected", EVIDENCE, DIFFICULTY, *derivation.tables}
    for name in output_folder.DATASET_ENTRIES if origin.manifest is not None else ():
        files = sorted((origin.location / name).glob("*.parquet")) if name not in changed else []
        for path in files:
            (final / name).mkdir(exist_ok=True)
            shutil.copyfile(path, final / name / path.name)


def _evidence(location: Path, manifest: Manifest, derivation: Derivation) -> Iterator[Row]:
    """Yield the rows of the table `evidence`: those of the origin, and the statements of the removed rows."""
    before = DatasetFolder(location, manifest).rows(EVIDENCE)
    if derivation.removed_rows_kept_elsewhere:
        moved = {rejection.id for rejection in derivation.removed.values()}
        return (row for row in before if row["reason"] != SUSPECT_REASON or row["id"] not in moved)
    removed = (
        evidence_row(derivation.removed[position], row["statement"])
        for position, row in enumerate(DatasetReader(location).read_columns("statement"))
        if position in derivation.removed
    )
    return heapq.merge(before, removed, key=sort_key)


def _counted(
    origin: ParentDataset, derivation: Derivation, files: Sequence[Path], rejected: Iterable[Row], final: Path
) -> Manifest:
    """Return the origin's manifest, or a new one if it has none, with the new plan, hashes and counts."""
    before = origin.manifest
    reward_hash = ""
    if before is not None and before.build is not None:
        hasher, counts = _recount(before, derivation, files, rejected, final)
        content_hash, reward_hash = hasher.content_hash, hasher.reward_hash
    else:
        content_hash, counts = hash_files(files, final), _count_without_sources(before, derivation)
    return replace(
        before or Manifest(derivation.plan, content_hash, counts),
        plan=derivation.plan,
        content_hash=content_hash,
        reward_hash=reward_hash,
        counts=counts,
        recipe=derivation.recipe,
    )


def _recount(
    before: Manifest, derivation: Derivation, files: Sequence[Path], rejected: Iterable[Row], final: Path
) -> tuple[RowHasher, dict[str, SourceCounts]]:
    """Return the hashes of the rows and the counts, computed as in a build, and write the digests of the rows."""
    import pyarrow.parquet as pq

    hasher = RowHasher()
    kept = dict.fromkeys(before.counts, 0)
    verified = dict.fromkeys(before.counts, 0)
    for path in files:
        with pq.ParquetFile(path) as file:
            for row in (row for batch in file.iter_batches(batch_size=16) for row in batch.to_pylist()):
                hasher.add(row)
                kept[row["source"]] += 1
                verified[row["source"]] += row["verified"]
    for row in rejected:
        hasher.add_rejected(row)
    write_digests(hasher, final)
    counts = {}
    for name, count in before.counts.items():
        removed = [rejection for rejection in derivation.removed.values() if rejection.source == name]
        counts[name] = SourceCounts(count.n_read, _with_removed(count.rejected, removed), kept[name], verified[name])
    return hasher, counts


def _count_without_sources(before: Manifest | None, derivation: Derivation) -> dict[str, SourceCounts]:
    """Return the counts of a dataset that curate did not build, and whose rows have no sources and no references."""
    count = before.counts["dataset"] if before is not None else SourceCounts(derivation.n_rows, {}, derivation.n_rows)
    kept = derivation.n_rows - len(derivation.removed)
    return {"dataset": SourceCounts(count.n_read, _with_removed(count.rejected, derivation.removed.values()), kept)}


def _with_removed(before: Mapping[str, Mapping[str, int]], removed: Iterable[Rejection]) -> dict[str, dict[str, int]]:
    """Return the numbers of rejected rows by stage and reason with the removed rows added."""
    after = {stage: dict(reasons) for stage, reasons in before.items()}
    for rejection in removed:
        by_reason = after.setdefault(rejection.stage, {})
        by_reason[rejection.reason] = by_reason.get(rejection.reason, 0) + 1
    return after


def _real(path: Path) -> Path:
    """Return the path with links resolved, even if one points to itself (where Path.resolve raises RuntimeError)."""
    return Path(os.path.realpath(path))
