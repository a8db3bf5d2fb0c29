"""The merge of datasets into one without duplicates across them. `merge` lists the steps.

Rows are copied unchanged. Of several equal problems, verified ones take precedence, then problems with more tests,
then problems of earlier datasets. The result lists only evaluation sets with which every dataset was compared, with the
same files, name and date window. Memory holds ids, sketches and the smaller tables.
"""

import os
import platform
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from itertools import accumulate
from pathlib import Path
from typing import Any

from curate.dataset import output_folder
from curate.dataset.contamination_hits import HIT_COLUMNS
from curate.dataset.dataset import Dataset, Row, require_outside
from curate.dedup.duplicates import find_duplicates, order_by_rank
from curate.dedup.sketches import create_temporary_sketches
from curate.derivation import DIFFICULTY, Key, derive, find_existing_parent
from curate.difficulty import table as solve_rates
from curate.errors import CurateError
from curate.manifest import (
    BuildInfo,
    EvaluationSource,
    Machine,
    Manifest,
    MergedDataset,
    MergeSource,
    Plan,
    SetCounts,
    StrengthSummary,
)
from curate.problem import COLUMNS, DEFAULT_VALUES, Problem, Rejection
from curate.progress import Progress, ignore_progress, track_progress
from curate.report.duplicate_section import DuplicateSection, build_duplicate_section

_MAX_SHOWN = 3
# For each evaluation set, its name and its counts in each dataset.
SetCountsOfInputs = dict[str, list[tuple[str, SetCounts]]]


def merge(
    datasets: Sequence[str | Path],
    out: Path,
    *,
    dedup: float = 0.7,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
) -> Manifest:
    """Write the rows of all datasets without duplicates to the folder `out` and return its manifest.

    datasets   folders or Hub ids of datasets that curate built; earlier ones take precedence
    dedup      minimum Jaccard similarity of word 5-grams of duplicates
    overwrite  whether to replace an existing dataset in the folder

    Does nothing if the folder has the finished dataset of this plan. Raises CurateError if a dataset cannot be read or
    was altered, if different problems have the same id, or if the folder cannot be written.
    """
    inputs = _open_inputs(datasets, out)
    shared = _find_shared_sets(inputs)
    plan = _build_plan(inputs, shared, threshold=dedup)
    finished = output_folder.find_finished_manifest(out, plan, overwrite=overwrite)
    if finished is not None:
        return finished
    started = time.monotonic()
    rows = _Rows(inputs)
    duplicates, section = _find_duplicates(
        rows, datasets, threshold=dedup, work=find_existing_parent(out), progress=progress
    )
    removed = {key: rejection for key, (rejection, _) in duplicates.items()}
    hits = _merge_hits(inputs, shared)
    rates = _merge_solve_rates(rows, {key: kept for key, (_, kept) in duplicates.items()})
    tables: dict[str, tuple[Sequence[Row], Any]] = {"contamination": (hits, HIT_COLUMNS)} if shared else {}
    if rates:
        tables[DIFFICULTY] = rates, solve_rates.COLUMNS
    n_lost = Counter(index for index, _ in removed)

    bands = {dataset.manifest.solve_rate for dataset in inputs}
    changes = {
        "decontamination": {
            name: _sum_set_counts([counts for _, counts in entries], hits) for name, entries in shared.items()
        },
        "build": _merge_builds(inputs),
        "solve_rate": bands.pop() if len(bands) == 1 else None,
        "merged": tuple(
            MergeSource(str(given), of_one.content_hash, of_one.n_kept, of_one.n_kept - n_lost[index])
            for index, (given, of_one) in enumerate(zip(datasets, (d.manifest for d in inputs), strict=True))
        ),
    }
    return derive(
        inputs,
        removed,
        plan,
        tables,
        out,
        overwrite=overwrite,
        changes=changes,
        timer=("merge", started),
        omit_evidence=True,
        duplicates=section,
        progress=progress,
    )


def _open_inputs(locations: Sequence[str | Path], out: Path) -> list[Dataset]:
    """Open the datasets. Raises CurateError unless there are at least two, all finished and outside `out`."""
    if len(locations) < 2:
        raise CurateError(f"a merge needs at least two datasets, not {len(locations)}. Pass more datasets.")
    inputs = [Dataset.open_built(location) for location in locations]
    if len({dataset.path.resolve() for dataset in inputs}) < len(inputs):
        raise CurateError("a dataset is given twice. Pass each dataset once.")
    for given, dataset in zip(locations, inputs, strict=True):
        require_outside(out, dataset.path, dataset.list_files("data"))
        if missing := COLUMNS.keys() - DEFAULT_VALUES.keys() - dataset.read_columns("data"):
            listed = ", ".join(sorted(missing))
            raise CurateError(f"{given}: its rows have no {listed}. Build it again with this version.")
        ids = [row["id"] for row in dataset.iter_rows("data", ("id",))]
        if ids != sorted(ids):
            raise CurateError(f"{given}: its rows are not sorted by id. Build it again.")
    return inputs


def find_missing_sets(locations: Sequence[str | Path]) -> dict[str, list[str]]:
    """Return the datasets not compared with an evaluation set, by set. Omits sets with which all were compared.

    Raises CurateError for a dataset that curate did not build.
    """
    of_inputs = [_list_sets(Dataset.open_built(location)) for location in locations]
    names = {key: name for sets in of_inputs for key, (name, _) in sets.items()}
    missing = {
        key: [str(given) for given, sets in zip(locations, of_inputs, strict=True) if key not in sets] for key in names
    }
    return {f"{names[key]} {key[1] or ''}".strip(): given for key, given in missing.items() if given}


@dataclass(frozen=True)
class _Rows:
    """The rows of all datasets, numbered consecutively."""

    inputs: Sequence[Dataset]

    @cached_property
    def ids(self) -> list[list[str]]:
        return [[row["id"] for row in dataset.iter_rows("data", ("id",))] for dataset in self.inputs]

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self.ids), initial=0))

    def find_key(self, number: int) -> Key:
        index = bisect_right(self._starts, number) - 1
        return index, number - self._starts[index]

    def get_id(self, key: Key) -> str:
        return self.ids[key[0]][key[1]]

    def load(self, key: Key) -> Problem:
        return self.inputs[key[0]].load(key[1])

    def __len__(self) -> int:
        return self._starts[-1]


def _find_duplicates(
    rows: _Rows, locations: Sequence[str | Path], *, threshold: float, work: Path, progress: Progress
) -> tuple[dict[Key, tuple[Rejection, Key]], DuplicateSection]:
    """Find duplicates across the datasets by the rules of a build (curate/dedup).

    Returns (rejection, kept row) of each row to remove, and the section of the report. Raises CurateError if different
    problems have the same id.
    """
    import numpy as np

    verified: list[bool] = []
    n_tests: list[int] = []

    def iter_problems() -> Iterator[Problem]:
        for dataset in rows.inputs:
            for problem in dataset:
                verified.append(problem.verified)
                n_tests.append(len(problem.tests.cases))
                yield problem

    # Ids may repeat across datasets, so the section of the report identifies a row by source and number.
    def load(name: str) -> Problem:
        return rows.load(rows.find_key(int(name.rpartition("/")[2])))

    duplicates: dict[Key, tuple[Rejection, Key]] = {}
    in_sources: list[Rejection] = []
    compared = track_progress(iter_problems(), "deduplicate", progress, total=len(rows))
    with create_temporary_sketches(compared, folder=work) as sketches:
        numbers = sketches.number.tolist()
        order = order_by_rank(np.array(verified)[numbers], np.array(n_tests)[numbers])
        for duplicate in find_duplicates(
            sketches, order, threshold=threshold, load=lambda row: rows.load(rows.find_key(numbers[row]))
        ):
            number, kept_number = numbers[duplicate.row], numbers[duplicate.kept]
            key, kept = rows.find_key(number), rows.find_key(kept_number)
            id, kept_id = rows.get_id(key), rows.get_id(kept)
            duplicates[key] = duplicate.to_rejection(id, _get_source(id), kept_id), kept
            names = f"{_get_source(id)}/{number:012}", f"{_get_source(kept_id)}/{kept_number:012}"
            in_sources.append(duplicate.to_rejection(names[0], _get_source(id), names[1]))
    _check_ids(rows, duplicates, locations)
    return duplicates, build_duplicate_section(in_sources, threshold=threshold, load=load)


def _get_source(id: str) -> str:
    return id.partition("/")[0]


def _check_ids(rows: _Rows, removed: Mapping[Key, object], locations: Sequence[str | Path]) -> None:
    holders: dict[str, list[int]] = {}
    for index, ids in enumerate(rows.ids):
        for position, id in enumerate(ids):
            if (index, position) not in removed:
                holders.setdefault(id, []).append(index)
    repeated = sorted(id for id, indices in holders.items() if len(indices) > 1)
    if repeated:
        holding = " and ".join(str(locations[index]) for index in holders[repeated[0]])
        more = f" and {len(repeated) - _MAX_SHOWN} more" if repeated[_MAX_SHOWN:] else ""
        raise CurateError(
            f"{holding} have different problems under the same id: {', '.join(repeated[:_MAX_SHOWN])}{more}. Build one "
            "of them again from a source with another name, or with other ids."
        )


def _merge_solve_rates(rows: _Rows, kept_by_removed: Mapping[Key, Key]) -> list[Row]:
    """Return the solve rates of the kept rows, sorted by id and model.

    A kept row gets rates of models not sampled on it from a removed row with the same id, problem and tests.
    """

    def get_task(key: Key) -> tuple[object, ...]:
        problem = rows.load(key)
        return problem.id, problem.statement, problem.starter_code, problem.tests.with_trials(())

    kept_rates: dict[tuple[str, str], Row] = {}
    removed_rates: dict[tuple[str, str], Row] = {}
    for index, dataset in enumerate(rows.inputs):
        positions = {id: position for position, id in enumerate(rows.ids[index])}
        for rate in solve_rates.read(dataset.path):
            if rate["id"] not in positions:
                continue
            key = index, positions[rate["id"]]
            kept = kept_by_removed.get(key)
            if kept is None:
                kept_rates[rate["id"], rate["model"]] = rate
            elif rows.get_id(kept) == rate["id"] and get_task(key) == get_task(kept):
                removed_rates.setdefault((rate["id"], rate["model"]), rate)
    merged = removed_rates | kept_rates
    return [merged[key] for key in sorted(merged)]


def _list_sets(dataset: Dataset) -> dict[tuple[str, str | None, tuple[str, ...]], tuple[str, SetCounts]]:
    """Return the evaluation sets of a dataset, by a key that identifies a set across datasets."""
    return {
        (counts.name, counts.window, tuple(file.sha256 for file in counts.files)): (name, counts)
        for name, counts in dataset.manifest.decontamination.items()
    }


def _find_shared_sets(inputs: Sequence[Dataset]) -> SetCountsOfInputs:
    first, *others = map(_list_sets, inputs)
    return {
        name: [(name, counts), *(sets[key] for sets in others)]
        for key, (name, counts) in first.items()
        if all(key in sets for sets in others)
    }


def _merge_hits(inputs: Sequence[Dataset], shared: SetCountsOfInputs) -> list[Row]:
    """Return the hits of the shared sets. Row positions continue from one dataset to the next."""
    hits: list[Row] = []
    for index, dataset in enumerate(inputs):
        # Number of rows of earlier datasets, by the name of the set in this dataset.
        offsets = {
            entries[index][1].name: sum(counts.rows for _, counts in entries[:index]) for entries in shared.values()
        }
        rows = dataset.iter_rows("contamination")
        hits += ({**hit, "row": hit["row"] + offsets[hit["set"]]} for hit in rows if hit["set"] in offsets)
    return sorted(hits, key=lambda hit: hit["row"])


def _sum_set_counts(counts: Sequence[SetCounts], hits: Sequence[Row]) -> SetCounts:
    rules: Counter[str] = Counter()
    for count in counts:
        rules.update(count.removed_by_rule)
    rows, removed = sum(count.rows for count in counts), sum(count.removed for count in counts)
    of_set = (hit for hit in hits if hit["set"] == counts[0].name)
    found = {hit["item"] for hit in of_set if hit["verdict"] == "removed" and hit["rule"] != "in_window"}
    warnings = dict.fromkeys(count.warning for count in counts if count.warning)
    return replace(
        counts[0],
        items_found=len(found),
        rows=rows,
        removed=removed,
        removal_rate=round(removed / max(rows, 1), 6),
        removed_by_rule=dict(sorted(rules.items())),
        n_to_review=sum(count.n_to_review for count in counts),
        warning=" ".join(warnings) or None,
    )


def _build_plan(inputs: Sequence[Dataset], shared: SetCountsOfInputs, *, threshold: float) -> Plan:
    before = [dataset.manifest for dataset in inputs]
    sources = dict.fromkeys(name for manifest in before for name in manifest.counts)
    options: dict[str, Any] = {}
    for manifest in reversed(before):  # the first dataset takes precedence
        options |= manifest.plan.configuration.get("source_options", {})
    compared = [entries[0][1] for entries in shared.values()]
    return Plan(
        curate_version=metadata.version("curate-code"),
        inputs={
            name: tuple(dict.fromkeys(file for manifest in before for file in manifest.plan.inputs.get(name, ())))
            for name in sources
        },
        configuration={"sources": list(sources), "source_options": options, "dedup": threshold},
        evaluation_sets=tuple(EvaluationSource(first.name, first.window, first.files) for first in compared),
        datasets=tuple(MergedDataset(manifest.content_hash, manifest.plan) for manifest in before),
    )


def _merge_builds(inputs: Sequence[Dataset]) -> BuildInfo:
    """Combine the build information. Strengths and times are sums; the machine is the current one."""
    builds = [build for dataset in inputs if (build := dataset.manifest.build) is not None]
    isolations = sorted({build.isolation for build in builds})
    locations = {name: location for build in reversed(builds) for name, location in build.locations.items()}
    return BuildInfo(
        versions=builds[0].versions,
        strength=_sum_strengths([build.strength for build in builds if build.strength is not None]),
        locations=locations,
        isolation=isolations[0] if len(isolations) == 1 else "",
        levels=tuple(sorted({level for build in builds for level in build.levels})),
        machine=Machine(platform.python_version(), platform.platform(), os.cpu_count()),
        reference_cpu_seconds=round(sum(build.reference_cpu_seconds for build in builds), 3),
        executed_cpu_seconds=round(sum(build.executed_cpu_seconds for build in builds), 3),
    )


def _sum_strengths(strengths: Sequence[StrengthSummary]) -> StrengthSummary | None:
    if not strengths:
        return None
    survivors: Counter[str] = Counter()
    for strength in strengths:
        survivors.update(strength.survivors)
    names = ("measured", "not_measured", "mutants", "killed", "equivalent")
    sums = {name: sum(getattr(strength, name) for strength in strengths) for name in names}
    return StrengthSummary(**sums, survivors=dict(sorted(survivors.items())))
