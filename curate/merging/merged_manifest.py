"""The plan and the manifest of a merged dataset."""

import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

from curate.manifest import (
    BuildInfo,
    EvaluationSource,
    InputFile,
    Machine,
    Manifest,
    MergedDataset,
    MergeSource,
    Plan,
    SourceCounts,
    StrengthSummary,
)
from curate.merging.inputs import MergeInput
from curate.merging.merged_contamination import shared_sets
from curate.problem import Rejection


def plan_of(inputs: Sequence[MergeInput], *, threshold: float) -> Plan:
    """Return the plan, which contains the plans of the datasets."""
    plans = [dataset.manifest.plan for dataset in inputs]
    sources = dict.fromkeys(name for dataset in inputs for name in dataset.manifest.counts)
    files = {name: _distinct(file for plan in plans for file in plan.inputs.get(name, ())) for name in sources}
    options: dict[str, Any] = {}
    for plan in reversed(plans):  # what the first dataset says counts
        options |= plan.configuration.get("source_options", {})
    compared = [in_each[0][1] for in_each in shared_sets(inputs).values()]
    return Plan(
        curate_version=metadata.version("curate-code"),
        inputs=files,
        configuration={"sources": list(sources), "source_options": options, "dedup": threshold},
        evaluation_sets=tuple(EvaluationSource(first.name, first.window, first.files) for first in compared),
        datasets=tuple(MergedDataset(dataset.manifest.content_hash, dataset.manifest.plan) for dataset in inputs),
    )


def _distinct(files: Iterable[InputFile]) -> tuple[InputFile, ...]:
    return tuple(dict.fromkeys(files))


def build_merge_sources(inputs: Sequence[MergeInput], n_left: Mapping[int, int]) -> tuple[MergeSource, ...]:
    """Return a line for each dataset. n_left: how many of its rows stay, by its number."""
    return tuple(
        MergeSource(d.given_location, d.manifest.content_hash, d.manifest.n_kept, n_left.get(d.index, 0))
        for d in inputs
    )


def merge_source_counts(
    inputs: Sequence[MergeInput], removed: Iterable[Rejection], kept: Mapping[str, int], verified: Mapping[str, int]
) -> dict[str, SourceCounts]:
    """Count what became of the rows of each source, over all datasets.

    removed: rejections of the duplicates
    kept, verified: numbers of rows that stay, by source
    """
    read: Counter[str] = Counter()
    rejected: dict[str, dict[str, Counter[str]]] = {}
    for dataset in inputs:
        for source, count in dataset.manifest.counts.items():
            read[source] += count.n_read
            for stage, reasons in count.rejected.items():
                rejected.setdefault(source, {}).setdefault(stage, Counter()).update(reasons)
    for rejection in removed:
        rejected.setdefault(rejection.source, {}).setdefault(rejection.stage, Counter())[rejection.reason] += 1
    return {
        source: SourceCounts(
            n_read,
            {stage: dict(sorted(reasons.items())) for stage, reasons in rejected.get(source, {}).items()},
            kept.get(source, 0),
            verified.get(source, 0),
        )
        for source, n_read in read.items()
    }


def merge_build_info(inputs: Sequence[MergeInput]) -> BuildInfo:
    """Return the joint record of the builds. Strengths and times are sums; the machine is the one that merges."""
    builds = [build for dataset in inputs if (build := dataset.manifest.build) is not None]
    strengths = [build.strength for build in builds if build.strength is not None]
    isolations = sorted({build.isolation for build in builds})
    locations = {name: location for build in reversed(builds) for name, location in build.locations.items()}
    return BuildInfo(
        versions=builds[0].versions,
        strength=_sum(strengths) if strengths else None,
        locations=locations,
        isolation=isolations[0] if len(isolations) == 1 else "",
        levels=tuple(sorted({level for build in builds for level in build.levels})),
        machine=Machine(platform.python_version(), platform.platform(), os.cpu_count()),
        reference_cpu_seconds=round(sum(build.reference_cpu_seconds for build in builds), 3),
        executed_cpu_seconds=round(sum(build.executed_cpu_seconds for build in builds), 3),
    )


def _sum(strengths: Sequence[StrengthSummary]) -> StrengthSummary:
    survivors: Counter[str] = Counter()
    for strength in strengths:
        survivors.update(strength.survivors)
    names = ("measured", "not_measured", "mutants", "killed", "equivalent")
    sums = {name: sum(getattr(strength, name) for strength in strengths) for name in names}
    return StrengthSummary(**sums, survivors=dict(sorted(survivors.items())))


def with_common_band(inputs: Sequence[MergeInput], manifest: Manifest) -> Manifest:
    """Return the manifest with the band of solve rates, if all datasets were reduced to the same one."""
    bands = {dataset.manifest.solve_rate for dataset in inputs}
    return replace(manifest, solve_rate=next(iter(bands))) if len(bands) == 1 else manifest
