"""Copies of a dataset with only the rows that fulfil conditions, for `curate filter`.

The other rows go to `rejected` with the stage `filter`, the reason `not_matching` (false) or `unknown` (null), and the
condition as the detail.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.dataset.dataset import Dataset, require_outside, translate_read_errors
from curate.derivation import Key, create_step_plan, derive
from curate.difficulty import table as solve_rates
from curate.errors import CurateError
from curate.manifest import Manifest
from curate.operations.condition import Condition, evaluate, parse
from curate.problem import Rejection
from curate.progress import Progress, ignore_progress, track_progress
from curate.recipe import FilterConfig, add_step

if TYPE_CHECKING:
    import pyarrow as pa

NOT_MATCHING, UNKNOWN = "not_matching", "unknown"  # reasons of rejections
_ROWS, _ROWS_WITH_TESTS = 4096, 64  # rows in a batch; the tests of one row can take tens of megabytes


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The effect of conditions on the rows of a dataset.

    n_rows            number of rows of the dataset
    condition_counts  for each condition, the numbers of rows for which it is true, false or null
    rejections        rejections of the rows that do not fulfil every condition
    uses_models       whether a condition depends on solve rates
    """

    n_rows: int
    condition_counts: Mapping[str, Mapping[bool | None, int]]
    rejections: Mapping[Key, Rejection]
    uses_models: bool


def preview_filter(dataset: Path, where: Sequence[str], *, progress: Progress = ignore_progress) -> FilterResult:
    """Return the effect of a filter without writing a dataset. Raises CurateError as `write_filtered` does."""
    return _evaluate(Dataset.open_built(dataset), where, progress)


def write_filtered(
    dataset: Path,
    where: Sequence[str],
    out: Path,
    *,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
    recipe: Mapping[str, Any] | None = None,
) -> tuple[Manifest, FilterResult]:
    """Write the rows that fulfil all conditions to the folder `out`; return its manifest, and the effect on the rows.

    dataset    folder or Hub id of a dataset that curate built
    where      conditions (curate/operations/condition.py)
    overwrite  whether to replace an existing dataset in the folder
    recipe     recipe of the result; None: derived from the dataset's recipe

    Does nothing if the folder has the result for these inputs. Raises CurateError if the dataset cannot be read, a
    condition is invalid, or the folder cannot be written.
    """
    origin = Dataset.open_built(dataset)
    require_outside(out, origin.path, origin.list_files("data"))
    result = _evaluate(origin, where, progress)
    options = {"where": list(result.condition_counts)}
    plan = create_step_plan(origin.manifest, "filter", options, result.rejections.values())
    tables = solve_rates.select_remaining_tables(origin, {rejection.id for rejection in result.rejections.values()})
    recipe = recipe or _build_recipe(origin.manifest, result)
    return derive([origin], result.rejections, plan, tables, out, overwrite=overwrite, recipe=recipe), result


def _evaluate(origin: Dataset, where: Sequence[str], progress: Progress) -> FilterResult:
    if not where:
        raise CurateError("no condition; pass at least one, such as --where 'verified and n_tests >= 8'")
    rates = solve_rates.read(origin.path)
    models = sorted({row["model"] for row in rates})
    solved = {(row["id"], row["model"]): (row["n"], row["n_correct"]) for row in rates}
    conditions = [parse(text.strip(), models) for text in dict.fromkeys(where)]
    counts: dict[str, Counter[bool | None]] = {condition.text: Counter() for condition in conditions}
    rejections: dict[Key, Rejection] = {}
    n_rows = 0
    with translate_read_errors(origin.path):  # the JSON in the column `tests` may be damaged
        rows = evaluate(conditions, _iter_batches(origin, conditions), solved)
        for id, source, *values in track_progress(rows, "filter", progress, total=origin.manifest.n_kept):
            failed = None
            for condition, value in zip(conditions, values, strict=True):
                counts[condition.text][value] += 1
                if not value and failed is None:
                    failed = condition, value
            if failed is not None:
                rejections[0, n_rows] = _build_rejection(id, source, *failed)
            n_rows += 1
    return FilterResult(n_rows, counts, rejections, any(condition.models for condition in conditions))


def _iter_batches(origin: Dataset, conditions: Sequence[Condition]) -> "Iterator[pa.RecordBatch]":
    columns = frozenset[str]().union(*(condition.columns for condition in conditions))
    if missing := columns - origin.read_columns("data"):
        raise CurateError(f"{origin.path}: its rows have no {', '.join(sorted(missing))}. Build it again.")
    return origin.iter_batches("data", sorted(columns), rows=_ROWS_WITH_TESTS if "tests" in columns else _ROWS)


def _build_rejection(id: str, source: str, condition: Condition, value: bool | None) -> Rejection:
    reason = UNKNOWN if value is None else NOT_MATCHING
    return Rejection(id, source, "filter", reason, " ".join(condition.text.split()))


def _build_recipe(origin: Manifest, result: FilterResult) -> Mapping[str, Any] | None:
    if result.uses_models and "difficulty" not in (origin.recipe or {}):
        return None  # the recipe does not sample the models on which the conditions depend
    return add_step(origin.recipe, "filter", FilterConfig(tuple(result.condition_counts)))
