"""How `curate difficulty` samples a model, and which settings have to stay the same from one call to the next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from curate.difficulty.table import Row
from curate.errors import CurateError

_K = 8  # INTELLECT-2's filter uses eight samples


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is sampled: n samples of each problem, from which pass@k is estimated.

    Raises CurateError if there are fewer samples than k.
    """

    model: str
    temperature: float = 0.6  # this and top_p are those of DeepCoder's evaluation
    top_p: float = 0.95
    max_tokens: int = 16384
    seed: int = 0
    n: int = _K
    k: int = _K

    def __post_init__(self) -> None:
        if self.n < self.k:
            raise CurateError(f"pass@{self.k} needs at least {self.k} samples, not {self.n}: give a larger --n.")


_FIXED = ("temperature", "top_p", "max_tokens", "seed")  # samples drawn in different ways are not mixed


def choose_settings(model: str, chosen: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> Settings:
    """Return the settings of a call.

    chosen   the settings that the user named
    earlier  the settings with which the model was sampled before; None: it was never sampled

    Settings that the user did not name keep their earlier values, or else get their defaults. Raises CurateError if
    samples would be drawn with other settings than the earlier ones.
    """
    earlier = earlier or {}
    for name in _FIXED:
        if name in earlier and chosen.get(name, earlier[name]) != earlier[name]:
            raise CurateError(
                f"the existing samples of {model} have {name} {earlier[name]}, not {chosen[name]}. "
                "Leave that option out to continue with them, or add --resample to drop them."
            )
    settings = {**earlier, **chosen, "model": model}
    if "n" not in chosen:
        settings["n"] = max(earlier.get("n", 0), settings.get("k", _K))
    return Settings(**settings)


def settings_of_rows(rows: Iterable[Row]) -> dict[str, Any] | None:
    """Return the settings with which a model's rows of the table were sampled, or None if there are no rows."""
    rows = list(rows)
    if not rows:
        return None
    settings = {field.name: rows[0][field.name] for field in fields(Settings) if field.name != "n"}
    return {**settings, "n": max(row["n_sampled"] for row in rows)}
