"""Copies of a dataset without the rows that contain items of an evaluation set, for `curate decontaminate`.

The copy of a dataset that curate built equals a build with the same evaluation sets. The copy of any other file or
folder has the remaining rows in `data/`, and also `rejected/`, `contamination/`, a manifest and a small card.
"""

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path

from curate.dataset import output_folder
from curate.dataset.contamination_hits import HIT_COLUMNS
from curate.dataset.dataset import Dataset, find_dataset, require_outside
from curate.dataset.files import DatasetFiles
from curate.dataset.location import download_dataset
from curate.decontamination.contamination_search import find_contamination
from curate.decontamination.evaluation_set import EvaluationSet, read_evaluations
from curate.decontamination.training_set import add_progress_reports, open_training_set
from curate.derivation import derive
from curate.difficulty.table import select_remaining_tables
from curate.manifest import InputFile, Manifest, Plan, SetCounts
from curate.progress import Progress, ignore_progress
from curate.reading.tables import hash_path
from curate.recipe import add_evaluation_sets


def write_clean_copy(
    location: str,
    against: Sequence[str],
    out: Path,
    *,
    text: str | None = None,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
) -> Manifest:
    """Write the dataset without contaminated rows to the folder `out` and return its manifest.

    location   a folder written by build-dataset, or a file, folder or Hub id of other data
    against    the evaluation sets, in the form of `--against`
    text       name of the column with the problems; None: one of the usual names
    overwrite  whether to replace an existing dataset in the folder

    Does nothing if the folder has the result for these inputs. Raises CurateError if the dataset or a set cannot be
    read, or the folder cannot be written.
    """
    given = download_dataset(location) or Path(location).expanduser()
    origin = find_dataset(given)
    training_set = open_training_set(f"{given}/data" if origin is not None else location, text)
    files = training_set.files
    require_outside(out, given, files.table.files)
    evaluations = read_evaluations(against)
    plan = _build_plan(origin, files, evaluations, text)
    finished = output_folder.find_finished_manifest(out, plan, overwrite=overwrite)
    if finished is not None:
        return finished
    started = time.monotonic()
    result = find_contamination(add_progress_reports(training_set.iter_rows, progress), evaluations)
    removed_ids = {rejection.id for rejection in result.rejections.values()}
    tables = dict(select_remaining_tables(origin, removed_ids)) if origin is not None else {}
    before, _ = tables.get("contamination", ((), {}))
    tables["contamination"] = itertools.chain(before, map(asdict, result.hits)), HIT_COLUMNS

    earlier = origin.manifest.decontamination if origin is not None else {}
    return derive(
        [origin] if origin is not None else [],
        {(0, position): rejection for position, rejection in result.rejections.items()},
        plan,
        tables,
        out,
        overwrite=overwrite,
        changes={"decontamination": _merge_set_counts(earlier, result.counts)},
        timer=("decontaminate", started),
        files=None if origin is not None and origin.manifest.build is not None else files,
        recipe=add_evaluation_sets(origin.manifest.recipe, against) if origin is not None else None,
    )


def _build_plan(
    origin: Dataset | None, files: DatasetFiles, evaluations: Iterable[EvaluationSet], text: str | None
) -> Plan:
    sets = tuple(evaluation.manifest_entry for evaluation in evaluations)
    if origin is not None:
        before = origin.manifest.plan
        return replace(before, evaluation_sets=(*before.evaluation_sets, *sets))
    inputs = tuple(InputFile(file.name, sha256=hash_path(file)) for file in files.table.files)
    return Plan(metadata.version("curate-code"), {"dataset": inputs}, {"text": text}, sets)


def _merge_set_counts(earlier: Mapping[str, SetCounts], new: Mapping[str, SetCounts]) -> dict[str, SetCounts]:
    """Merge the counts of earlier and new evaluation sets. A repeated name gets a suffix such as " (2)"."""
    counts = dict(earlier)
    for name, count in new.items():
        names = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
        counts[next(free for free in names if free not in counts)] = count
    return counts
