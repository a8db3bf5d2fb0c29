"""Solve-rate bands, which select the problems with a learning signal: those solved neither always nor never."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from curate.dataset.dataset import Dataset, Row, require_outside
from curate.derivation import Key, derive
from curate.difficulty import table as solve_rates
from curate.errors import CurateError
from curate.manifest import BandPlan, Manifest, SelectedBand
from curate.problem import Rejection

# Fewer remaining problems, or a smaller share of all problems, cause a warning.
_MIN_ROWS, _MIN_SHARE = 100, 0.1
_SETTINGS = ("k", "temperature", "top_p", "max_tokens", "seed")
_JSON_SETTINGS = ("prompt", "engine", "languages")  # columns with JSON text; empty for the default


@dataclass(frozen=True, slots=True)
class SolveRateBand:
    """The inclusive bounds of the share of correct samples. INTELLECT-2 keeps 0.125 to 0.5."""

    lower: float = 0.0
    upper: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "SolveRateBand":
        """Parse MIN:MAX, where MIN or MAX may be empty. Raises CurateError for any other text."""
        lower, colon, upper = text.partition(":")
        try:
            band = cls(float(lower or 0), float(upper or 1))
        except ValueError:
            colon = ""
        if not colon or text == ":" or not 0 <= band.lower <= band.upper <= 1:
            raise CurateError(
                f"--solve-rate {text} is not a range; pass MIN:MAX with fractions from 0 to 1, such as '0.125:0.5', "
                "'0.125:' or ':0.5'"
            )
        return band

    def find_exclusion_reason(self, n: int, n_correct: int) -> str | None:
        """Return the reason to exclude n_correct of n samples; None if their rate is in the band."""
        if n == 0:
            return "not_sampled"
        # Division and float() round correctly, so 3 of 10 equals a bound of 0.3.
        rate = n_correct / n
        if rate < self.lower:
            return "too_hard"
        return "too_easy" if rate > self.upper else None

    def __str__(self) -> str:
        return f"{self.lower:g}:{self.upper:g}"


def filter_by_solve_rate(
    dataset: Path,
    out: Path,
    band: SolveRateBand,
    models: Sequence[str],
    *,
    overwrite: bool = False,
    recipe: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write the rows with solve rates in the band, and return the manifest of the new dataset.

    models  models whose solve rates must all lie in the band; empty for all sampled models
    recipe  recipe to store in the manifest; None to store none

    The other rows go to `rejected` as too_hard, too_easy or not_sampled, with the counts of each model. The new dataset
    keeps the solve rates of all models. A finished folder with the same inputs is unchanged. Raises CurateError if the
    dataset cannot be read or lacks these models, or if the folder cannot be written.
    """
    origin = Dataset.open_built(dataset)
    rates = solve_rates.read(origin.path)
    models = _select_models(origin.path, rates, models)
    require_outside(out, origin.path, origin.list_files("data"))
    before = origin.manifest
    plan = replace(
        before.plan,
        parent_content_hash=before.content_hash,
        solve_rate=(*before.plan.solve_rate, _build_plan(rates, band, models)),
    )
    removed = dict(_iter_rejections(origin, rates, band, models))
    chosen = SelectedBand(str(band), tuple(models), _make_size_warning(len(origin), len(removed)))
    return derive(
        [origin],
        removed,
        plan,
        solve_rates.select_remaining_tables(origin, ()),
        out,
        overwrite=overwrite,
        changes={"solve_rate": chosen},
        recipe=recipe,
    )


def _select_models(dataset: Path, rates: Sequence[Row], names: Sequence[str]) -> list[str]:
    known = sorted({row["model"] for row in rates})
    if not known:
        raise CurateError(f"{dataset} has no solve rates. Type: curate difficulty {dataset} --model MODEL")
    for name in names:
        if name not in known:
            raise CurateError(f"{dataset} has no solve rates of {name}. Choose among {', '.join(known)}.")
    return list(names) or known


def _build_plan(rates: Sequence[Row], band: SolveRateBand, models: Sequence[str]) -> BandPlan:
    used = [[row[name] for name in ("id", "model", "n", "n_correct", "samples")] for row in rates]
    return BandPlan(
        band=str(band),
        models={row["model"]: _parse_settings(row) for row in rates if row["model"] in models},
        counts_sha256=hashlib.sha256(json.dumps([row for row in used if row[1] in models]).encode()).hexdigest(),
    )


def _parse_settings(row: Row) -> Row:
    nondefault = {name: json.loads(row[name]) for name in _JSON_SETTINGS if row[name]}
    return {**{name: row[name] for name in _SETTINGS}, **nondefault}


def _iter_rejections(
    origin: Dataset, rates: Sequence[Row], band: SolveRateBand, models: Sequence[str]
) -> Iterator[tuple[Key, Rejection]]:
    """Yield the key and the rejection of each row without all of its solve rates in the band."""
    counts = {(row["id"], row["model"]): (row["n"], row["n_correct"]) for row in rates}
    for position, row in enumerate(origin.iter_rows("data", ("id", "source"))):
        of_models = {model: counts.get((row["id"], model), (0, 0)) for model in models}
        reasons = {band.find_exclusion_reason(*count) for count in of_models.values()} - {None}
        # A row has one reason. A model without samples takes precedence.
        reason = next((first for first in ("not_sampled", "too_hard", "too_easy") if first in reasons), None)
        if reason is not None:
            detail = ", ".join(f"{model} {correct} of {n}" for model, (n, correct) in of_models.items())
            yield (0, position), Rejection(row["id"], row["source"], "difficulty", reason, detail)


def _make_size_warning(n_rows: int, n_removed: int) -> str | None:
    n_left = n_rows - n_removed
    if n_left >= _MIN_ROWS and n_left >= _MIN_SHARE * n_rows:
        return None
    return f"only {n_left} of {n_rows} problems are left; a wider band, or another model, leaves more"
