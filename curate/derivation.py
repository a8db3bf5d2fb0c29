"""Datasets made from other datasets by removing rows. The remaining rows are unchanged."""

import hashlib
import heapq
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from curate.dataset import card, output_folder
from curate.dataset.dataset import Dataset, Row
from curate.dataset.digests import RowHasher, write_digests
from curate.dataset.evidence import EVIDENCE, EVIDENCE_COLUMNS, SUSPECT_REASON, get_sort_key, make_evidence_row
from curate.dataset.files import DatasetFiles, hash_files
from curate.dataset.integrity import require_intact
from curate.dataset.writer import REJECTED_COLUMNS, Columns, make_rejected_row, write_table
from curate.manifest import Manifest, Plan, SourceCounts, StepPlan, add_name_and_date
from curate.problem import COLUMNS, Rejection
from curate.progress import Progress, ignore_progress, track_progress
from curate.report.duplicate_section import DuplicateSection
from curate.report.report_files import load_duplicate_section, write_report

Key = tuple[int, int]  # identifies a row: index of its dataset among the inputs, and its position in `data`
Tables = Mapping[str, tuple[Iterable[Row], Columns]]  # rows and columns of each table, by its name
DIFFICULTY = card.DIFFICULTY
_FOREIGN_SOURCE = "dataset"  # source of all rows of a dataset that curate did not build


def create_step_plan(origin: Manifest, step: str, options: Mapping[str, Any], rejections: Iterable[Rejection]) -> Plan:
    """Return the plan of a dataset derived from a dataset that curate built.

    step        name of the step, such as "filter"
    options     options of the step
    rejections  rejections of the rows that the step removes
    """
    ids = sorted(rejection.id for rejection in rejections)
    digest = hashlib.sha256(json.dumps(ids).encode()).hexdigest()
    return replace(origin.plan, steps=(*origin.plan.steps, StepPlan(step, origin.content_hash, options, digest)))


def derive(
    inputs: Sequence[Dataset],
    rejections: Mapping[Key, Rejection],
    plan: Plan,
    tables: Tables,
    out: Path,
    *,
    overwrite: bool,
    changes: Mapping[str, Any] | None = None,
    timer: tuple[str, float] | None = None,
    files: DatasetFiles | None = None,
    omit_evidence: bool = False,
    duplicates: DuplicateSection | None = None,
    recipe: Mapping[str, Any] | None = None,
    progress: Progress = ignore_progress,
) -> Manifest:
    """Write the remaining rows of all inputs into the folder `out`, and return the manifest.

    Does nothing if the folder has the finished dataset of this plan.

    rejections     rejections of the rows to remove
    plan           plan of the new dataset
    tables         all tables other than `data`, `rejected` and `evidence`
    changes        changed fields of the manifest of the only input, or of a new manifest
    timer          name of a duration in the manifest, and its start by time.monotonic()
    files          files of the rows, if curate did not build the dataset; without a manifest, pass no `inputs`
    omit_evidence  whether the table `evidence` omits the removed rows, which other outputs or equal rows preserve
    duplicates     section of the report; None: the section of the only input
    recipe         recipe of the new dataset; None if no recipe can express its steps

    Rows of inputs that curate built must be sorted by id. Raises CurateError if the rows of an input differ from its
    manifest, because the new manifest would hide the difference.
    """
    finished = output_folder.find_finished_manifest(out, plan, overwrite=overwrite)
    if finished is not None:
        return finished
    for dataset in inputs:
        require_intact(dataset.path, advice="Build it again, or download it again.", progress=progress)
    with output_folder.open_work_folder(out, plan, overwrite=overwrite) as work:
        final = work / "final"
        shutil.rmtree(final, ignore_errors=True)  # incomplete copy of a killed run
        hasher, kept, verified = RowHasher(), Counter[str](), Counter[str]()
        before = [dataset.manifest for dataset in inputs]
        if files is None:
            rows = track_progress(
                _iter_remaining(inputs, rejections),
                "write",
                progress,
                total=sum(manifest.n_kept for manifest in before) - len(rejections),
            )
            write_table(_hash_and_count_rows(rows, hasher, kept, verified), COLUMNS, final / "data")
        else:
            copies, n_rows = files.copy({position for _, position in rejections}, final / "data")
            kept[_FOREIGN_SOURCE] = n_rows - len(rejections)
            before = before or [Manifest(plan, "", {_FOREIGN_SOURCE: SourceCounts(n_rows, {}, n_rows)})]
        suffix = files.suffix if files else ".parquet"
        new = sorted(map(make_rejected_row, rejections.values()), key=get_sort_key)
        merged = heapq.merge(*(dataset.iter_rows("rejected") for dataset in inputs), new, key=get_sort_key)
        rejected = (hasher.add(row, "rejected") for row in merged)
        write_table(rejected, REJECTED_COLUMNS, final / "rejected", suffix=suffix)
        for name, (table, columns) in tables.items():
            write_table(table, columns, final / name, suffix=suffix)
        if files is None:
            write_digests(hasher, final)
            evidence = (
                _iter_evidence(dataset, _select_rejections(index, rejections), omit_evidence=omit_evidence)
                for index, dataset in enumerate(inputs)
            )
            write_table(heapq.merge(*evidence, key=get_sort_key), EVIDENCE_COLUMNS, final / EVIDENCE)
        manifest = replace(
            before[0] if len(before) == 1 else Manifest(plan, "", {}),
            plan=plan,
            content_hash=hasher.content_hash if files is None else hash_files(copies, final),
            reward_hash=hasher.reward_hash if files is None else "",
            counts=_build_counts(before, rejections.values(), kept, None if files else verified),
            recipe=recipe,
            **(changes or {}),
        )
        if timer is not None:
            name, start = timer
            manifest = replace(manifest, seconds={**manifest.seconds, name: round(time.monotonic() - start, 3)})
        manifest = add_name_and_date(manifest, out)
        card.write(manifest, final)
        if duplicates is None and len(inputs) == 1:
            duplicates = load_duplicate_section(inputs[0].path)
        write_report(final, manifest, duplicates)
        return output_folder.commit_output(work, out, manifest)


def find_existing_parent(out: Path) -> Path:
    """Return `out` or its nearest existing parent, for temporary files in the same file system."""
    return next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())


def _iter_remaining(inputs: Sequence[Dataset], rejections: Mapping[Key, Rejection]) -> Iterator[Row]:
    def iter_input(index: int, dataset: Dataset) -> Iterator[Row]:
        rows = enumerate(dataset.iter_rows("data", list(COLUMNS)))
        return (row for position, row in rows if (index, position) not in rejections)

    return heapq.merge(*(iter_input(index, dataset) for index, dataset in enumerate(inputs)), key=itemgetter("id"))


def _select_rejections(index: int, rejections: Mapping[Key, Rejection]) -> dict[int, Rejection]:
    return {position: rejection for (number, position), rejection in rejections.items() if number == index}


def _hash_and_count_rows(
    rows: Iterable[Row], hasher: RowHasher, kept_counts: "Counter[str]", verified_counts: "Counter[str]"
) -> Iterator[Row]:
    """Yield the rows, and add each to the hashes and to the counts by source."""
    for row in rows:
        kept_counts[row["source"]] += 1
        verified_counts[row["source"]] += row["verified"]
        yield hasher.add(row, "data")


def _iter_evidence(dataset: Dataset, rejections: Mapping[int, Rejection], *, omit_evidence: bool) -> Iterator[Row]:
    """Yield the rows of the table `evidence`, and new rows with the statements of removed rows.

    rejections: rejections of the removed rows, by position
    omit_evidence: whether to omit the removed rows
    """
    before = dataset.iter_rows(EVIDENCE)
    if omit_evidence:
        ids = {rejection.id for rejection in rejections.values()}
        return (row for row in before if row["reason"] != SUSPECT_REASON or row["id"] not in ids)
    statements = enumerate(dataset.iter_rows("data", ("statement",)))
    after = (make_evidence_row(rejections[n], row["statement"]) for n, row in statements if n in rejections)
    return heapq.merge(before, after, key=get_sort_key)


def _build_counts(
    manifests: Iterable[Manifest],
    rejections: Iterable[Rejection],
    n_kept: Mapping[str, int],
    n_verified: Mapping[str, int] | None,
) -> dict[str, SourceCounts]:
    """Count the rows of each source by result, over all inputs.

    rejections  rejections of this derivation
    n_kept      numbers of remaining rows by source
    n_verified  numbers of verified remaining rows by source; None if curate did not build the dataset
    """
    read: Counter[str] = Counter()
    rejected: dict[str, dict[str, Counter[str]]] = {}
    for manifest in manifests:
        for source, count in manifest.counts.items():
            read[source] += count.n_read
            for stage, reasons in count.rejected.items():
                rejected.setdefault(source, {}).setdefault(stage, Counter()).update(reasons)
    for rejection in rejections:
        source = _FOREIGN_SOURCE if n_verified is None else rejection.source
        rejected.setdefault(source, {}).setdefault(rejection.stage, Counter())[rejection.reason] += 1
    return {
        source: SourceCounts(
            n_read,
            {stage: dict(sorted(reasons.items())) for stage, reasons in rejected.get(source, {}).items()},
            n_kept.get(source, 0),
            None if n_verified is None else n_verified.get(source, 0),
        )
        for source, n_read in read.items()
    }
