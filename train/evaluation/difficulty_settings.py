"""How `curate difficulty` samples a model, and which settings have to stay the same from one call to the next."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from curate.difficulty.table import Row
from curate.errors import CurateError
from curate.prompt import PromptFormat, read_prompt
from curate.reading.values import shorten
from rewards.extract import PYTHON_ONLY

_K = 8  # INTELLECT-2's filter uses eight samples


@dataclass(frozen=True, slots=True)
class DifficultySettings:
    """How a model is sampled: n samples of each problem, from which pass@k is estimated.

    engine     the options of vLLM on which answers depend (EngineOptions.sample_affecting_options)
    languages  the languages that an answer may be written in; see rewards.extract

    Raises CurateError if there are fewer samples than k.
    """

    model: str
    temperature: float = 0.6  # this and top_p are those of DeepCoder's evaluation
    top_p: float = 0.95
    max_tokens: int = 16384
    seed: int = 0
    n: int = _K
    k: int = _K
    prompt: PromptFormat = field(default_factory=PromptFormat)
    engine: Mapping[str, Any] = field(default_factory=dict)
    languages: tuple[str, ...] = PYTHON_ONLY

    def __post_init__(self) -> None:
        if self.n < self.k:
            raise CurateError(f"pass@{self.k} needs at least {self.k} samples, not {self.n}: give a larger --n.")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values: the last three as texts, which are empty for the defaults."""
        languages = "" if self.languages == PYTHON_ONLY else " ".join(self.languages)
        texts = {"prompt": _text(self.prompt.as_table()), "engine": _text(self.engine), "languages": languages}
        return {**asdict(self), **texts}


# Samples that were drawn in different ways are not mixed.
_FIXED = ("temperature", "top_p", "max_tokens", "seed", "prompt", "engine", "languages")


def choose_settings(model: str, overrides: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> DifficultySettings:
    """Return the settings of a call.

    overrides  the settings that the user named; prompt is a table as read_prompt takes it, engine a table of options
    earlier    the record of the settings with which the model was sampled before; None: it was never sampled

    Settings that the user did not name keep their earlier values, or else get their defaults. Raises CurateError if
    samples would be drawn with other settings than the earlier ones.
    """
    sampled = None if earlier is None else _of_record(earlier)
    settings = {**(sampled or {}), **overrides, "model": model}
    if "prompt" in overrides:
        settings["prompt"] = read_prompt(overrides["prompt"], (sampled or {}).get("prompt"))
    if sampled is not None:
        for name in _FIXED:
            if name in sampled and settings[name] != sampled[name]:
                raise CurateError(
                    f"the existing samples of {model} have {_described(name, sampled[name])}, not "
                    f"{_described('', settings[name])}. "
                    "Leave that option out to continue with them, or add --resample to drop them."
                )
    if "n" not in overrides:
        settings["n"] = max((sampled or {}).get("n", 0), settings.get("k", _K))
    return DifficultySettings(**settings)


def _of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a record. Settings that a record of an earlier version lacks get their defaults."""
    prompt, engine = record.get("prompt"), record.get("engine")
    return {
        **record,
        "prompt": PromptFormat(**json.loads(prompt)) if prompt else PromptFormat(),
        "engine": json.loads(engine) if engine else {},
        "languages": tuple((record.get("languages") or "python").split()),
    }


def _described(name: str, value: object) -> str:
    if isinstance(value, PromptFormat | Mapping):
        text = _text(value.as_table() if isinstance(value, PromptFormat) else value)
        return f"{name} {shorten(text) if text else 'as by default'}".strip()
    return f"{name} {' '.join(value) if isinstance(value, tuple) else value}".strip()


def _text(table: Mapping[str, Any]) -> str:
    return json.dumps(table, sort_keys=True) if table else ""


def settings_from_rows(rows: Iterable[Row]) -> dict[str, Any] | None:
    """Return the settings with which a model's rows of the table were sampled, or None if there are no rows."""
    rows = list(rows)
    if not rows:
        return None
    settings = {field.name: rows[0][field.name] for field in fields(DifficultySettings) if field.name != "n"}
    return {**settings, "n": max(row["n_sampled"] for row in rows)}
