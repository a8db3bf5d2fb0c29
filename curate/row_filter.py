"""Copy a dataset with only the rows that fulfil conditions, for `curate filter`.

The other rows go to `rejected` with the stage `filter`: as `not_matching` if a condition is false, and as `unknown` if
it cannot be decided because a value is not known. The detail of the rejection is the condition.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.condition import Condition, evaluate, parse
from curate.dataset import output_folder
from curate.dataset.dataset_reader import translate_read_errors
from curate.dataset.folder import DatasetFolder
from curate.derivation import Derivation, ParentDataset, open_built_dataset, plan_of_step, write_derived
from curate.difficulty import table as solve_rates
from curate.errors import CurateError
from curate.manifest import Manifest
from curate.problem import Rejection
from curate.progress import Progress, no_progress, with_progress
from curate.recipe import FilterConfig, with_step

if TYPE_CHECKING:
    import pyarrow as pa

NOT_MATCHING, UNKNOWN = "not_matching", "unknown"  # the reasons in its rejections
_ROWS, _ROWS_WITH_TESTS = 4096, 64  # of a batch; the tests of one row can take tens of megabytes


@dataclass(frozen=True, slots=True)
class FilterResult:
    """What becomes of the rows of a dataset under some conditions.

    n_rows: number of rows of the dataset
    fulfilled: for each condition, the numbers of rows for which it is true, false or null
    removed: rejections of the rows that do not fulfil every condition, by position
    uses_models: whether a condition depends on solve rates
    """

    n_rows: int
    condition_counts: Mapping[str, Mapping[bool | None, int]]
    removed: Mapping[int, Rejection]
    uses_models: bool


def preview_filter(dataset: Path, where: Sequence[str], *, progress: Progress = no_progress) -> FilterResult:
    """Return what a filter would remove, and write nothing. Raises CurateError as `write_filtered` does."""
    return _outcome(open_built_dataset(dataset), where, progress)


def write_filtered(
    dataset: Path,
    where: Sequence[str],
    out: Path,
    *,
    overwrite: bool = False,
    progress: Progress = no_progress,
    recipe: Mapping[str, Any] | None = None,
) -> tuple[Manifest, FilterResult]:
    """Write the rows that fulfil all conditions to the folder `out`; return its manifest, and what became of the rows.

    dataset    a folder of a dataset that curate built
    where      conditions; curate/condition.py explains them
    overwrite  replace an existing dataset in the folder
    progress   called with the progress
    recipe     the recipe of the result, if the caller knows more of it than the dataset does

    A folder that is already finished is recognised by its inputs, and is left as it is. Raises CurateError if the
    dataset cannot be read, a condition cannot be understood, or the folder cannot be written.
    """
    origin = open_built_dataset(dataset)
    origin.check_no_overlap(out)
    outcome = _outcome(origin, where, progress)
    plan = plan_of_step(origin, "filter", {"where": list(outcome.condition_counts)}, outcome.removed.values())
    finished = output_folder.finished_manifest(out, plan, overwrite=overwrite)
    if finished is not None:
        return finished, outcome
    removed = {rejection.id for rejection in outcome.removed.values()}
    rates = solve_rates.read_remaining_table(dataset, removed)
    recipe = recipe or _recipe(origin, outcome)
    derivation = Derivation(plan, outcome.n_rows, outcome.removed, rates, recipe=recipe)
    return write_derived(origin, derivation, out, overwrite=overwrite), outcome


def _outcome(origin: ParentDataset, where: Sequence[str], progress: Progress) -> FilterResult:
    if not where:
        raise CurateError("give at least one condition, such as --where 'verified and n_tests >= 8'")
    rates = solve_rates.read(origin.location)
    models = sorted({row["model"] for row in rates})
    solved = {(row["id"], row["model"]): (row["n"], row["n_correct"]) for row in rates}
    conditions = [parse(text.strip(), models) for text in dict.fromkeys(where)]
    counts: dict[str, Counter[bool | None]] = {condition.text: Counter() for condition in conditions}
    removed: dict[int, Rejection] = {}
    n_rows = 0
    assert origin.manifest is not None
    with translate_read_errors(origin.location):  # the JSON text of tests may be damaged
        rows = evaluate(conditions, _batches(origin, conditions), solved)
        for id, source, *answers in with_progress(rows, "filter", progress, total=origin.manifest.n_kept):
            failed = None
            for condition, holds in zip(conditions, answers, strict=True):
                counts[condition.text][holds] += 1
                if not holds and failed is None:
                    failed = condition, holds
            if failed is not None:
                removed[n_rows] = _rejection(id, source, *failed)
            n_rows += 1
    return FilterResult(n_rows, counts, removed, any(condition.models for condition in conditions))


def _batches(origin: ParentDataset, conditions: Sequence[Condition]) -> "Iterator[pa.RecordBatch]":
    """Return the rows with the columns that the conditions use."""
    assert origin.manifest is not None
    folder = DatasetFolder(origin.location, origin.manifest)
    columns = frozenset[str]().union(*(condition.columns for condition in conditions))
    if missing := columns - folder.columns("data"):
        raise CurateError(f"{origin.location}: its rows have no {', '.join(sorted(missing))}. Build it again.")
    return folder.batches("data", sorted(columns), rows=_ROWS_WITH_TESTS if "tests" in columns else _ROWS)


def _rejection(id: str, source: str, condition: Condition, holds: bool | None) -> Rejection:
    reason = UNKNOWN if holds is None else NOT_MATCHING
    return Rejection(id, source, "filter", reason, " ".join(condition.text.split()))


def _recipe(origin: ParentDataset, outcome: FilterResult) -> Mapping[str, Any] | None:
    """Return the recipe of the dataset with this filter."""
    assert origin.manifest is not None
    before = origin.manifest.recipe
    if outcome.uses_models and "difficulty" not in (before or {}):
        return None  # it does not say how the models were sampled
    return with_step(before, "filter", FilterConfig(tuple(outcome.condition_counts)))
