"""`manifest.json`: the inputs and options of a finished dataset, and the counts of its rows.

A manifest begins with its plan, which determines the content of the dataset. If curate did not build a dataset, but
`curate decontaminate` removed rows from it, the manifest has no `BuildInfo`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from curate import json_records
from curate.json_records import json_key, omit_if_default
from sandbox import Package

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input or output file. bytes: size of the file; None if unknown"""

    name: str
    bytes: int | None = omit_if_default(None)
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class EvaluationSource:
    """The name, date window and files of an evaluation set."""

    name: str
    window: str | None
    files: tuple[InputFile, ...]


@dataclass(frozen=True, slots=True)
class BandPlan:
    """A selection of problems by solve rate.

    band: the bounds as MIN:MAX
    models: sampling settings, by model
    counts_sha256: hash of the counts behind the solve rates
    """

    band: str
    models: Mapping[str, Mapping[str, Any]]
    counts_sha256: str = field(metadata=json_key("sha256"))


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step that made the dataset from another one by removing rows.

    step: filter or split
    parent_content_hash: content hash of the dataset before this step
    removed_ids_sha256: hash of the ids of the removed rows, because measured columns can decide their removal
    """

    step: str
    parent_content_hash: str = field(metadata=json_key("content"))
    options: Mapping[str, Any]
    removed_ids_sha256: str = field(metadata=json_key("sha256"))


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings and inputs that determine the content of a dataset, without workers, paths or times.

    curate_version: version of curate
    inputs: files by source; under `dataset` for a dataset that curate did not build
    configuration: options of the build and the order of its sources; for another dataset, its reading options
    evaluation_sets: evaluation sets, in the order of comparison
    parent_content_hash: content hash of the dataset from which a solve-rate band was selected
    solve_rate: the applied solve-rate bands, in order
    steps: the applied filters and splits, in order
    datasets: the merged datasets, in order
    """

    curate_version: str = field(default="", metadata=json_key("curate"))
    inputs: Mapping[str, tuple[InputFile, ...]] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    evaluation_sets: tuple[EvaluationSource, ...] = field(default=(), metadata=json_key("against"))
    parent_content_hash: str | None = omit_if_default(None, key="content")
    solve_rate: tuple[BandPlan, ...] = omit_if_default(())
    steps: tuple[StepPlan, ...] = omit_if_default(())
    datasets: tuple["MergedDataset", ...] = omit_if_default(())


@dataclass(frozen=True, slots=True)
class MergedDataset:
    """The plan and the content hash of an input of a merge."""

    content_hash: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """The number of rows of one source, by result.

    rejected: number of rows by stage, then by reason
    n_verified: number of kept rows whose reference passed all tests; None if curate did not build the dataset
    """

    n_read: int = field(metadata=json_key("read"))
    rejected: Mapping[str, Mapping[str, int]]
    n_kept: int = field(metadata=json_key("kept"))
    n_verified: int | None = omit_if_default(None, key="verified")

    @property
    def n_rejected(self) -> int:
        """The number of rejected rows."""
        return self.n_read - self.n_kept

    def count_rejected(self, stage: str) -> int:
        """Return the number of rows that this stage rejected."""
        return sum(self.rejected.get(stage, {}).values())


@dataclass(frozen=True, slots=True)
class SetCounts(EvaluationSource):
    """The result of a comparison with an evaluation set.

    items: number of items of the set
    items_found: number of items that a row contains, by a comparison of texts or keys
    rows: number of compared rows
    removed, n_to_review: numbers of removed rows, and of kept rows to review
    removal_rate: removed / rows
    removed_by_rule: number of removed rows by rule
    warning: warning of an implausibly high removal rate; None for a plausible one
    """

    items: int
    items_found: int
    rows: int
    removed: int
    removal_rate: float
    removed_by_rule: Mapping[str, int] = field(metadata=json_key("rules"))
    n_to_review: int = field(metadata=json_key("review"))
    warning: str | None


@dataclass(frozen=True, slots=True)
class StrengthSummary:
    """The strength of the tests of all measured problems.

    measured, not_measured: numbers of measured and of other problems
    mutants: number of mutants executed
    killed, equivalent: numbers of mutants that the tests reject, and of mutants equivalent to the reference
    survivors: numbers of wrong mutants that no test rejects, by kind of mistake
    """

    measured: int = 0
    not_measured: int = 0
    mutants: int = 0
    killed: int = 0
    equivalent: int = 0
    survivors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The location of a source. revision: the commit on the Hub; empty for a local path"""

    location: str
    revision: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that built the dataset."""

    python: str
    system: str
    processors: int | None


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """Facts about a build that do not determine the content of the dataset.

    executed_cpu_seconds: CPU time of all executed programs
    reference_cpu_seconds: CPU time of the references, a part of executed_cpu_seconds
    levels: isolation levels of the sandboxes that judged programs
    packages: packages outside the standard library that programs could import
    """

    versions: Mapping[str, str]
    strength: StrengthSummary | None = None
    locations: Mapping[str, SourceLocation] = field(default_factory=dict)
    workers: int | None = None
    isolation: str = ""
    levels: tuple[str, ...] = ()
    backend: str = "local"
    machine: Machine | None = None
    reference_cpu_seconds: float = 0.0
    executed_cpu_seconds: float = 0.0
    packages: tuple[Package, ...] = omit_if_default(())


@dataclass(frozen=True, slots=True)
class SelectedBand:
    """The solve-rate band of a dataset, as MIN:MAX, and the models whose solve rates selected its problems.

    warning: warning that chance may have selected the problems, because they are few; None without a warning
    """

    band: str
    models: tuple[str, ...]
    warning: str | None


@dataclass(frozen=True, slots=True)
class MergeSource:
    """An input of a merge. rows: number of its rows; n_kept: number of its rows in the merged dataset"""

    location: str
    content_hash: str
    rows: int
    n_kept: int = field(metadata=json_key("stayed"))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a finished dataset.

    counts: numbers of rows by result, by source
    decontamination: results of comparisons, by evaluation set
    seconds: wall time in seconds, by stage
    merged: the inputs of a merge; empty for other datasets
    files: the files that no command changes later; empty if an earlier version wrote the dataset
    name: name of the folder
    date: day of writing, in UTC, as YYYY-MM-DD
    recipe: the recipe of the dataset (curate/recipe.py); None if no recipe can express it
    reward_hash: hash of the columns on which rewards depend; empty if curate did not build the dataset
    manifest_hash: hash of all other fields; empty, like the reward hash, if an earlier version wrote the dataset
    """

    plan: Plan
    content_hash: str
    counts: Mapping[str, SourceCounts]
    decontamination: Mapping[str, SetCounts] = field(default_factory=dict)
    build: BuildInfo | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    solve_rate: SelectedBand | None = omit_if_default(None)
    merged: tuple[MergeSource, ...] = omit_if_default(())
    files: tuple[InputFile, ...] = omit_if_default(())
    name: str = omit_if_default("")
    date: str = omit_if_default("")
    recipe: Mapping[str, Any] | None = omit_if_default(None)
    reward_hash: str = omit_if_default("")
    manifest_hash: str = omit_if_default("")

    @property
    def n_read(self) -> int:
        """The number of rows read from all sources."""
        return sum(count.n_read for count in self.counts.values())

    @property
    def n_kept(self) -> int:
        """The number of rows in the dataset."""
        return sum(count.n_kept for count in self.counts.values())

    @property
    def n_rejected(self) -> int:
        """The number of rejected rows."""
        return self.n_read - self.n_kept

    @property
    def n_verified(self) -> int:
        """The number of rows in the dataset whose reference passed all tests."""
        return sum(count.n_verified or 0 for count in self.counts.values())

    @property
    def warnings(self) -> list[str]:
        """The warnings of the commands that made the dataset, as SUBJECT: WARNING."""
        warned = [(name, count.warning) for name, count in self.decontamination.items()]
        if self.solve_rate is not None:
            warned.append(("solve rate", self.solve_rate.warning))
        return [f"{name}: {warning}" for name, warning in warned if warning]


def add_name_and_date(manifest: Manifest, folder: Path) -> Manifest:
    """Return the manifest with the name of the folder and today's date."""
    return replace(manifest, name=folder.absolute().name, date=datetime.now(UTC).date().isoformat())


def to_json(manifest: Manifest) -> dict[str, Any]:
    """Return the content of `manifest.json`, with the fields of `build` at the top level."""
    values: dict[str, Any] = json_records.to_json(manifest)
    build = values.pop("build") or {}
    return {**values, **build}


def compute_hash(data: Mapping[str, Any]) -> str:
    """Return the manifest hash: SHA-256 of the fields of `manifest.json` without the hash itself."""
    covered = {name: value for name, value in data.items() if name != "manifest_hash"}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def from_json(data: Any) -> Manifest:
    """Decode the content of `manifest.json`. Raises ValueError unless it is a manifest of a supported version."""
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    build = json_records.from_json(BuildInfo, data, ignore_unknown=True) if "versions" in data else None
    values = {name: value for name, value in data.items() if name != "build"}
    return replace(json_records.from_json(Manifest, values, ignore_unknown=True), build=build)
