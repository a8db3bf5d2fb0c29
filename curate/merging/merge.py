"""Merge curated datasets into one, without duplicates across them. To follow the steps, read `merge`."""

import heapq
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from curate.dataset import card, difficulty_section, output_folder
from curate.dataset.contamination_hits import HIT_COLUMNS
from curate.dataset.dataset_reader import translate_read_errors
from curate.dataset.digests import RowHasher, write_digests
from curate.dataset.integrity import require_intact
from curate.dataset.writer import REJECTED_COLUMNS, rejected_row, write_table
from curate.derivation import DIFFICULTY, table_rows
from curate.difficulty import table as solve_rates
from curate.manifest import Manifest, with_name_and_date
from curate.merging.cross_duplicates import CrossDuplicates, find_cross_duplicates
from curate.merging.inputs import MergeInput, input_index, open_inputs
from curate.merging.merged_contamination import merge_hits, merge_set_counts, shared_sets
from curate.merging.merged_manifest import (
    build_merge_sources,
    merge_build_info,
    merge_source_counts,
    plan_of,
    with_common_band,
)
from curate.merging.solve_rates import merge_solve_rates
from curate.problem import COLUMNS
from curate.progress import Progress, no_progress, with_progress
from curate.report.report_files import write_report

_BY = ("id", "stage", "reason", "detail")  # the order of the table `rejected`


def merge(
    datasets: Sequence[str | Path],
    out: Path,
    *,
    dedup: float = 0.7,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Manifest:
    """Write the rows of all datasets without duplicates to the folder `out` and return its manifest.

    datasets   folders or Hub ids of datasets that curate built; of equally good duplicates, the first one stays
    dedup      minimum Jaccard similarity of word 5-grams at which two statements are nearly the same
    overwrite  replace an existing dataset in the folder
    progress   called with the progress

    A folder that is already finished is recognised by its inputs, and is left as it is. Raises CurateError if a dataset
    cannot be read or was altered, two of them have different problems under the same id, or the folder cannot be
    written.
    """
    inputs = open_inputs(datasets, out)
    plan = plan_of(inputs, threshold=dedup)
    finished = output_folder.finished_manifest(out, plan, overwrite=overwrite)
    if finished is not None:
        return finished
    started = time.monotonic()
    for dataset in inputs:
        require_intact(dataset.location, advice="Build it again, or fetch it again.", progress=progress)
    with output_folder.open_work_folder(out, plan, overwrite=overwrite) as work:
        final = work / "final"
        shutil.rmtree(final, ignore_errors=True)  # an earlier run that was killed may have left an incomplete copy
        across = find_cross_duplicates(inputs, threshold=dedup, work=work, progress=progress)
        hasher, kept, verified = RowHasher(), Counter[str](), Counter[str]()
        write_table(_rows(inputs, across, hasher, kept, verified, progress), COLUMNS, final / "data")
        write_table(map(hasher.add_rejected, _rejected(inputs, across)), REJECTED_COLUMNS, final / "rejected")
        write_digests(hasher, final)
        hits = merge_hits(inputs)
        if shared_sets(inputs):
            write_table(iter(hits), HIT_COLUMNS, final / "contamination")
        rates = merge_solve_rates(inputs, across.removed.keys(), across.kept_name_by_removed)
        if rates:
            write_table(iter(rates), solve_rates.COLUMNS, final / DIFFICULTY)
        _join_other_tables(inputs, final)
        lost = Counter(map(input_index, across.removed))
        n_left = {dataset.index: dataset.manifest.n_kept - lost[dataset.index] for dataset in inputs}
        manifest = Manifest(
            plan=plan,
            content_hash=hasher.content_hash,
            reward_hash=hasher.reward_hash,
            counts=merge_source_counts(inputs, across.removed.values(), kept, verified),
            decontamination=merge_set_counts(inputs, hits),
            build=merge_build_info(inputs),
            seconds={"merge": round(time.monotonic() - started, 3)},
            merged=build_merge_sources(inputs, n_left),
        )
        manifest = with_name_and_date(with_common_band(inputs, manifest), out)
        card.write(manifest, final)
        if rates:
            difficulty_section.update_card(final, rates, manifest.solve_rate)
        write_report(final, manifest, across.section)
        return output_folder.commit_output(work, out, manifest)


def _rows(
    inputs: Sequence[MergeInput],
    across: CrossDuplicates,
    hasher: RowHasher,
    kept: "Counter[str]",
    verified: "Counter[str]",
    progress: Progress,
) -> Iterator[dict[str, Any]]:
    """Yield the rows that stay, by id, add them to the hashes, and count them and the verified ones by source."""

    def staying(dataset: MergeInput) -> Iterator[dict[str, Any]]:
        rows = dataset.folder.rows("data", list(COLUMNS))
        return (row for row in rows if dataset.qualified_id(row["id"]) not in across.removed)

    n_rows = sum(dataset.manifest.n_kept for dataset in inputs) - len(across.removed)
    for row in with_progress(heapq.merge(*map(staying, inputs), key=itemgetter("id")), "write", progress, total=n_rows):
        kept[row["source"]] += 1
        verified[row["source"]] += row["verified"]
        yield hasher.add({name: row[name] for name in COLUMNS})


def _rejected(inputs: Sequence[MergeInput], across: CrossDuplicates) -> list[dict[str, Any]]:
    """Return what was rejected from any of the datasets, and the duplicates."""
    before = [row for dataset in inputs for row in table_rows(dataset.location / "rejected")]
    return sorted([*before, *map(rejected_row, across.removed.values())], key=itemgetter(*_BY))


def _join_other_tables(inputs: Sequence[MergeInput], final: Path) -> None:
    """Write the tables whose rows all stay, such as the evidence. Those of the datasets follow each other."""
    import pyarrow.parquet as pq

    done = {"data", "rejected", "contamination", DIFFICULTY}
    for name in output_folder.DATASET_ENTRIES:
        files = [path for dataset in inputs for path in sorted((dataset.location / name).glob("*.parquet"))]
        if name in done or not files:
            continue
        (final / name).mkdir()
        schema = pq.read_schema(files[0])
        with pq.ParquetWriter(final / name / "train-00000-of-00001.parquet", schema, compression="zstd") as writer:
            for path in files:
                with translate_read_errors(path), pq.ParquetFile(path) as file:
                    for batch in file.iter_batches(batch_size=64):
                        writer.write_batch(batch)
