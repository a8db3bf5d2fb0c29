"""A copy of a dataset with the problems whose solve rate lies in a band; nothing is sampled for it."""

import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from curate.dataset import card, workspace
from curate.dataset.derivation import Manifest, apart, own_manifest, rebuilt, rows_of
from curate.dataset.files import files_of
from curate.dataset.reader import Stored
from curate.dataset.writer import REJECTED_COLUMNS, write_table
from curate.difficulty import card_section
from curate.difficulty import table as solve_rates
from curate.difficulty.band import Band
from curate.errors import CurateError
from curate.problem import Rejection
from curate.report.files import stored_pairs, write_report

_FEW_ROWS, _FEW_SHARE = 100, 0.1  # what is left can be too little to train on, or be chance
_SETTINGS = ("k", "temperature", "top_p", "max_tokens", "seed")


def refilter(dataset: Path, out: Path, band: Band, models: Sequence[str], *, overwrite: bool = False) -> Manifest:
    """Write the rows whose solve rate lies in the band for every one of the models (none named: of the table).

    The others go to `rejected` as too_hard, too_easy or not_sampled, with each model's counts. A folder that is
    finished already is recognised by its inputs, and left as it is. Raises CurateError.
    """
    before = own_manifest(dataset)
    if before is None or "versions" not in before:
        raise CurateError(f"{dataset}: not a dataset that curate built. Give the folder that holds its manifest.json.")
    table = solve_rates.read(dataset)
    models = _models(dataset, table, models)
    found = files_of(f"{dataset}/data")
    apart(out, dataset, found.table.files)
    plan = {
        **before["plan"],
        "content": before["content_hash"],
        "solve_rate": [*before["plan"].get("solve_rate", []), _plan(table, band, models)],
    }
    done = workspace.finished(out, plan, overwrite=overwrite)
    if done is not None:
        return done
    removed = dict(_outside(dataset, table, band, models))
    with workspace.opened(out, plan, overwrite=overwrite) as work:
        final = work / "final"
        shutil.rmtree(final, ignore_errors=True)  # half of it, if this was killed before
        files = found.copy(removed, final / "data")
        rejected = [*rows_of(dataset, "rejected"), *map(asdict, removed.values())]
        rejected.sort(key=lambda row: tuple(row[name] for name in ("id", "stage", "reason", "detail")))
        write_table(iter(rejected), REJECTED_COLUMNS, final / "rejected")
        write_table(iter(table), solve_rates.COLUMNS, final / solve_rates.FOLDER)
        if (dataset / "contamination").is_dir():
            shutil.copytree(dataset / "contamination", final / "contamination")
        manifest = rebuilt(before, plan, removed.values(), files, rejected)
        manifest["solve_rate"] = {"band": str(band), "models": models, "warning": _warning(files, removed)}
        card.write(manifest, final)
        card_section.announce(final, table, manifest["solve_rate"])
        write_report(final, manifest, stored_pairs(dataset))
        workspace.publish(work, out, manifest)
    return manifest


def _models(dataset: Path, table: Sequence[solve_rates.Row], named: Sequence[str]) -> list[str]:
    known = sorted({row["model"] for row in table})
    if not known:
        raise CurateError(f"{dataset}: no model was sampled on it. Type: curate difficulty {dataset} --model MODEL")
    for name in named:
        if name not in known:
            raise CurateError(f"{dataset}: {name} was not sampled on it. {', '.join(known)} were.")
    return list(named) or known


def _plan(table: Sequence[solve_rates.Row], band: Band, models: Sequence[str]) -> dict[str, Any]:
    used = [[row[name] for name in ("id", "model", "n", "n_correct", "samples")] for row in table]
    settings = {row["model"]: {name: row[name] for name in _SETTINGS} for row in table if row["model"] in models}
    return {
        "band": str(band),
        "models": settings,
        "sha256": hashlib.sha256(json.dumps([row for row in used if row[1] in models]).encode()).hexdigest(),
    }


def _outside(
    dataset: Path, table: Sequence[solve_rates.Row], band: Band, models: Sequence[str]
) -> Iterator[tuple[int, Rejection]]:
    """Positions of the rows outside the band, and why."""
    counts = {(row["id"], row["model"]): (row["n"], row["n_correct"]) for row in table}
    for position, row in enumerate(Stored(dataset).columns("id", "source")):
        of_models = {model: counts.get((row["id"], model), (0, 0)) for model in models}
        reasons = {band.misses(*count) for count in of_models.values()} - {None}
        # One word is counted: what was not measured is neither hard nor easy, and hard is said before easy.
        reason = next((word for word in ("not_sampled", "too_hard", "too_easy") if word in reasons), None)
        if reason is not None:
            detail = ", ".join(f"{model} {correct} of {n}" for model, (n, correct) in of_models.items())
            yield position, Rejection(row["id"], row["source"], "difficulty", reason, detail)


def _warning(files: Sequence[Path], removed: Collection[int]) -> str | None:
    import pyarrow.parquet as pq

    kept = sum(pq.read_metadata(path).num_rows for path in files)
    if kept >= _FEW_ROWS and kept >= _FEW_SHARE * (kept + len(removed)):
        return None
    return f"only {kept} of {kept + len(removed)} problems are left; a wider band, or another model, leaves more"
