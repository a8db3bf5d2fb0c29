"""Copy a dataset without the rows that contain items of an evaluation set, for `curate decontaminate`.

The copy of a folder that `curate build-dataset` wrote is the same as if it had been built with the same sets: removed
rows are in `rejected/`, and the manifest and the card describe the comparison. For any other file or folder, the rows
that stay are copied unchanged into `data/`, beside `rejected/`, `contamination/`, a manifest and a small card.
"""

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path

from curate.dataset import output_folder
from curate.dataset.contamination_hits import HIT_COLUMNS
from curate.dataset.location import download_dataset
from curate.decontamination.contamination_search import ContaminationResult, find_contamination
from curate.decontamination.evaluation_set import EvaluationSet
from curate.decontamination.evaluation_set_reader import read_evaluations
from curate.decontamination.training_rows import with_progress_reports
from curate.decontamination.training_set import open_training_set
from curate.derivation import Columns, Derivation, ParentDataset, Row, find_manifest, write_derived
from curate.difficulty import table
from curate.manifest import InputFile, Manifest, Plan, SetCounts
from curate.progress import Progress, no_progress
from curate.reading.tables import path_sha256
from curate.recipe import with_evaluation_sets


def write_clean_copy(
    location: str,
    against: Sequence[str],
    out: Path,
    *,
    text: str | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Manifest:
    """Write the dataset without contaminated rows to the folder `out` and return its manifest.

    location   a folder that build-dataset wrote, or any file, folder or Hub id of a table
    against    the evaluation sets, in the form that `read_evaluations` takes
    text       the name of the column with the problems, if it is an unusual one
    overwrite  replace an existing dataset in the folder
    progress   called with the progress of the comparison

    A folder that is already finished is recognised by its inputs, and is left as it is. Raises CurateError if the
    dataset or a set cannot be read, or the folder cannot be written.
    """
    given = download_dataset(location) or Path(location).expanduser()
    before = find_manifest(given)
    rows = open_training_set(f"{given}/data" if before else location, text)
    origin = ParentDataset(given, before, rows.files)
    origin.check_no_overlap(out)
    evaluations = read_evaluations(against)
    plan = _plan(origin, evaluations, text)
    finished = output_folder.finished_manifest(out, plan, overwrite=overwrite)
    if finished is not None:
        return finished
    started = time.monotonic()
    findings = find_contamination(with_progress_reports(rows.rows, progress), evaluations)

    def describe(manifest: Manifest) -> Manifest:
        return replace(
            manifest,
            decontamination=_sets(manifest, findings),
            seconds={**manifest.seconds, "decontaminate": round(time.monotonic() - started, 3)},
        )

    n_rows = max(count.rows for count in findings.counts.values())
    recipe = with_evaluation_sets(before.recipe, against) if before is not None else None
    derivation = Derivation(plan, n_rows, findings.rejections, _tables(origin, findings), describe, recipe=recipe)
    return write_derived(origin, derivation, out, overwrite=overwrite)


def _plan(origin: ParentDataset, evaluations: Iterable[EvaluationSet], text: str | None) -> Plan:
    sets = tuple(evaluation.plan for evaluation in evaluations)
    if origin.manifest is not None:
        before = origin.manifest.plan
        return replace(before, evaluation_sets=(*before.evaluation_sets, *sets))
    files = tuple(InputFile(file.name, sha256=path_sha256(file)) for file in origin.files.table.files)
    return Plan(metadata.version("curate-code"), {"dataset": files}, {"text": text}, sets)


def _tables(origin: ParentDataset, findings: ContaminationResult) -> dict[str, tuple[list[Row], Columns]]:
    hits = [*origin.table("contamination"), *map(asdict, findings.hits)]
    tables = {"contamination": (hits, HIT_COLUMNS)}
    removed = {rejection.id for rejection in findings.rejections.values()}
    return tables if origin.manifest is None else tables | table.read_remaining_table(origin.location, removed)


def _sets(before: Manifest, findings: ContaminationResult) -> dict[str, SetCounts]:
    """Return the counts of all sets, including those of earlier comparisons. Repeated names are numbered."""
    counts = dict(before.decontamination)
    for name, count in findings.counts.items():
        names = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
        counts[next(free for free in names if free not in counts)] = count
    return counts
