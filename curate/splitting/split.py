"""Write each part of a dataset as a dataset of its own: OUT/train, OUT/validation and, if asked for, OUT/test.

Parts are folders rather than splits of one dataset, because every command takes the folder of a dataset: `curate train`
has one folder to train on and another to evaluate on, and each part can be exported, filtered or pushed. In each part,
the rows of the others are in `rejected` with the stage `split`.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.dataset import output_folder
from curate.dataset.dataset_reader import DatasetReader
from curate.derivation import Derivation, ParentDataset, open_built_dataset, plan_of_step, write_derived
from curate.difficulty import table as solve_rates
from curate.errors import CurateError, PlanMismatchError
from curate.manifest import MANIFEST, Manifest, Plan
from curate.problem import Rejection
from curate.progress import Progress, no_progress
from curate.recipe import SplitConfig, with_step
from curate.splitting.assignment import PARTS, TRAIN, assign_parts
from curate.splitting.clusters import clusters

STEP = "split"


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """The options that, together with the dataset, decide the parts.

    sizes       sizes of the parts `validation`, `test` or both: a share of the rows (float), or a number of rows (int);
                all other rows are for training
    similarity  minimum Jaccard similarity of word 5-grams at which two statements must be in the same part
    seed        seed of the choice
    """

    sizes: Mapping[str, float | int]
    similarity: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sizes or not self.sizes.keys() <= set(PARTS) - {TRAIN}:
            raise ValueError("sizes must have the parts validation, test or both")
        if not 0 < self.similarity <= 1:
            raise ValueError(f"similarity must be above 0 and at most 1, not {self.similarity}")


@dataclass(frozen=True, slots=True)
class _Row:
    id: str
    source: str
    cluster: str  # the id of a row in it
    part: str


def split(
    dataset: Path,
    out: Path,
    options: SplitOptions,
    *,
    overwrite: bool = False,
    progress: Progress = no_progress,
    recipe: Mapping[str, Any] | None = None,
) -> dict[str, Manifest]:
    """Write the parts of a dataset into folders of their names in `out`, and return their manifests by these names.

    dataset    a folder of a dataset that curate built
    out        the folder for the folders of the parts
    options    the sizes of the parts, and how they are chosen
    overwrite  replace an existing split in the folder
    progress   called with the progress
    recipe     the recipe of the result, if the caller knows more of it than the dataset does

    Parts that are already finished are recognised by their inputs, and are left as they are. Raises CurateError if the
    dataset cannot be read, a part would be empty, or a folder cannot be written.
    """
    origin = open_built_dataset(dataset)
    origin.check_no_overlap(out)
    if (out / MANIFEST).exists():
        raise CurateError(f"{out} is a dataset itself. Choose another --out for the parts.")
    names = [TRAIN, *options.sizes]
    rows = _rows(dataset, options, progress)
    removed = {name: dict(_removed(rows, name)) for name in names}
    plans = {name: _plan(origin, options, name, removed[name]) for name in names}
    recipe = recipe or _recipe(origin, options)
    with output_folder.lock_output(out, out / ".lock", temporary=True):
        finished = {
            name: output_folder.finished_manifest(out / name, plan, overwrite=overwrite) for name, plan in plans.items()
        }
        _remove_others(out, names, overwrite=overwrite)
        for name in names:
            if finished[name] is None and (out / name).exists():
                output_folder.mark_unfinished(out / name)  # a new part beside an old one could have rows in common
        manifests = {}
        for name in names:
            manifest = finished[name]
            if manifest is None:
                rates = solve_rates.read_remaining_table(dataset, {row.id for row in rows if row.part != name})
                derivation = Derivation(
                    plans[name], len(rows), removed[name], rates, removed_rows_kept_elsewhere=True, recipe=recipe
                )
                manifest = write_derived(origin, derivation, out / name, overwrite=overwrite)
            manifests[name] = manifest
        return manifests


def _recipe(origin: ParentDataset, options: SplitOptions) -> Mapping[str, Any] | None:
    assert origin.manifest is not None
    section = SplitConfig(**options.sizes, similarity=options.similarity, seed=options.seed)
    return with_step(origin.manifest.recipe, STEP, section)


def _rows(dataset: Path, options: SplitOptions, progress: Progress) -> list[_Row]:
    in_cluster = clusters(dataset, similarity=options.similarity, progress=progress)
    rows = list(DatasetReader(dataset).read_columns("id", "source"))
    ids, sources = [row["id"] for row in rows], [row["source"] for row in rows]
    parts = assign_parts(ids, sources, in_cluster, options.sizes, options.seed)
    return [
        _Row(id, source, ids[cluster], part)
        for id, source, cluster, part in zip(ids, sources, in_cluster, parts, strict=True)
    ]


def _removed(rows: Sequence[_Row], part: str) -> Iterator[tuple[int, Rejection]]:
    """Yield positions and rejections of the rows that belong to other parts."""
    sizes = Counter(row.cluster for row in rows)
    for position, row in enumerate(rows):
        if row.part != part:
            detail = f"cluster={row.cluster} rows={sizes[row.cluster]}"
            yield position, Rejection(row.id, row.source, STEP, row.part, detail)


def _plan(origin: ParentDataset, options: SplitOptions, part: str, removed: Mapping[int, Rejection]) -> Plan:
    chosen = {"part": part, "sizes": dict(options.sizes), "similarity": options.similarity, "seed": options.seed}
    return plan_of_step(origin, STEP, chosen, removed.values())


def _remove_others(out: Path, names: Sequence[str], *, overwrite: bool) -> None:
    """Remove the parts of an earlier split that this one does not have; they may have rows in common with it."""
    for name in PARTS:
        if name in names or not (out / name).is_dir():
            continue
        steps = output_folder.read_manifest(out / name).plan.steps
        if not steps or steps[-1].step != STEP:
            raise CurateError(f"{out / name} is not a part of a split. Choose another --out.")
        if not overwrite:
            raise PlanMismatchError(f"{out / name} belongs to another split. Choose another --out, or add --overwrite.")
        shutil.rmtree(out / name)
