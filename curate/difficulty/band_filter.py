"""Copy a dataset with only the problems whose solve rate lies in a band. No model is sampled for this."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from curate.dataset import output_folder
from curate.dataset.contamination_hits import HIT_COLUMNS
from curate.dataset.dataset_reader import DatasetReader
from curate.dataset.files import find_dataset_files
from curate.derivation import DIFFICULTY, Columns, Derivation, ParentDataset, Row, find_manifest, write_derived
from curate.difficulty import table as solve_rates
from curate.difficulty.band import SolveRateBand
from curate.errors import CurateError
from curate.manifest import BandPlan, Manifest, SelectedBand
from curate.problem import Rejection

_FEW_ROWS, _FEW_SHARE = 100, 0.1  # fewer problems may be too few to train on, or may have been selected by chance
_SETTINGS = ("k", "temperature", "top_p", "max_tokens", "seed")
_TEXTS = ("prompt", "engine", "languages")  # settings that are empty unless they were given


def filter_by_solve_rate(
    dataset: Path,
    out: Path,
    band: SolveRateBand,
    models: Sequence[str],
    *,
    overwrite: bool = False,
    recipe: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write the rows whose solve rate lies in the band, and return the manifest of the new dataset.

    models: the models whose solve rates must all lie in the band; if none is named, all models that were sampled
    recipe: the recipe of the result, if the models were sampled as it says

    The other rows go to `rejected` as too_hard, too_easy or not_sampled, with the counts of each model. A folder that
    is already finished is recognised by its inputs, and is left as it is. Raises CurateError if the dataset cannot be
    read, has no such models, or the folder cannot be written.
    """
    before = find_manifest(dataset)
    if before is None or before.build is None:
        raise CurateError(f"{dataset}: not a dataset that curate built. Give the folder that holds its manifest.json.")
    rates = solve_rates.read(dataset)
    models = _models(dataset, rates, models)
    origin = ParentDataset(dataset, before, find_dataset_files(f"{dataset}/data"))
    origin.check_no_overlap(out)
    plan = replace(
        before.plan,
        parent_content_hash=before.content_hash,
        solve_rate=(*before.plan.solve_rate, _plan(rates, band, models)),
    )
    finished = output_folder.finished_manifest(out, plan, overwrite=overwrite)
    if finished is not None:
        return finished
    rows = DatasetReader(dataset)
    removed = dict(_outside(rows, rates, band, models))
    chosen = SelectedBand(str(band), tuple(models), _warning(len(rows), len(removed)))
    derivation = Derivation(
        plan,
        len(rows),
        removed,
        _tables(origin, rates),
        lambda manifest: replace(manifest, solve_rate=chosen),
        recipe=recipe,
    )
    return write_derived(origin, derivation, out, overwrite=overwrite)


def _tables(origin: ParentDataset, rates: list[Row]) -> dict[str, tuple[list[Row], Columns]]:
    """Return the tables of the origin. They keep all solve rates, so that the whole distribution can be seen."""
    tables = {DIFFICULTY: (rates, solve_rates.COLUMNS)}
    if (origin.location / "contamination").is_dir():
        tables["contamination"] = origin.table("contamination"), HIT_COLUMNS
    return tables


def _models(dataset: Path, rates: Sequence[Row], named: Sequence[str]) -> list[str]:
    known = sorted({row["model"] for row in rates})
    if not known:
        raise CurateError(f"{dataset}: no model was sampled on it. Type: curate difficulty {dataset} --model MODEL")
    for name in named:
        if name not in known:
            raise CurateError(f"{dataset}: {name} was not sampled on it. Choose among {', '.join(known)}.")
    return list(named) or known


def _plan(rates: Sequence[Row], band: SolveRateBand, models: Sequence[str]) -> BandPlan:
    used = [[row[name] for name in ("id", "model", "n", "n_correct", "samples")] for row in rates]
    return BandPlan(
        band=str(band),
        models={row["model"]: _settings(row) for row in rates if row["model"] in models},
        counts_sha256=hashlib.sha256(json.dumps([row for row in used if row[1] in models]).encode()).hexdigest(),
    )


def _settings(row: Row) -> Row:
    given = {name: json.loads(row[name]) for name in _TEXTS if row[name]}
    return {**{name: row[name] for name in _SETTINGS}, **given}


def _outside(
    problems: DatasetReader, rates: Sequence[Row], band: SolveRateBand, models: Sequence[str]
) -> Iterator[tuple[int, Rejection]]:
    """Yield the position and the rejection of each row outside the band."""
    counts = {(row["id"], row["model"]): (row["n"], row["n_correct"]) for row in rates}
    for position, row in enumerate(problems.read_columns("id", "source")):
        of_models = {model: counts.get((row["id"], model), (0, 0)) for model in models}
        reasons = {band.exclusion_reason(*count) for count in of_models.values()} - {None}
        # Only the first of these reasons is counted. A problem that was not sampled is neither hard nor easy.
        reason = next((first for first in ("not_sampled", "too_hard", "too_easy") if first in reasons), None)
        if reason is not None:
            detail = ", ".join(f"{model} {correct} of {n}" for model, (n, correct) in of_models.items())
            yield position, Rejection(row["id"], row["source"], "difficulty", reason, detail)


def _warning(n_rows: int, n_removed: int) -> str | None:
    n_left = n_rows - n_removed
    if n_left >= _FEW_ROWS and n_left >= _FEW_SHARE * n_rows:
        return None
    return f"only {n_left} of {n_rows} problems are left; a wider band, or another model, leaves more"
