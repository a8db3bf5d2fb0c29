"""The settings of a result as a flat table, and a summary of the differences between results."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from train.engine_options import EngineOptions
from train.evaluation.protocols.settings import DEFAULT, format_setting
from train.evaluation.results.result import Result

_SAMPLING = ("k", "temperature", "top_p", "max_tokens")
_EXERCISES = "exercises"
_MAX_NAMES = 3


def build_settings_table(result: Result) -> dict[str, Any]:
    """Return the settings of a result as JSON values by name, including defaults; None for empty values."""
    recorded = {**result.protocol.get("table", {}), **result.protocol.get("overrides", {})}
    used = {**DEFAULT.as_table(), **recorded, **result.sampling, "k": result.k}
    # The table has name and source under other names, and no others of these.
    for name in ("name", "source", "window", "logprobs"):
        used.pop(name, None)
    table = {
        **{name: used.pop(name, None) for name in _SAMPLING},
        "protocol": recorded.get("name"),
        "protocol version": recorded.get("source"),
        **used,
        **{name: result.prompt.get(name) for name in ("system", "template", "template_arguments")},
        "languages": list(result.languages),
        "max_model_len": result.engine.get("max_model_len"),
        **EngineOptions(vllm=result.engine).select_sample_affecting_options(),
        "suite options": result.location.partition("?")[2],
        "tests": result.suite_metadata.get("tests"),
        "curate": result.curate_version,
        _EXERCISES: str(result.suite_metadata.get("exercises_sha256", ""))[:12],
    }
    return {name: None if value in ("", [], {}) else value for name, value in table.items()}


def describe_differences(results: Mapping[str, Result]) -> str:
    """Describe the settings in which results differ; "" if all are equal.

    results: results on the same problems, by display name

    The digest of the exercises depends on tests and some settings, so it is omitted if one of these differs.
    """
    tables = {name: build_settings_table(result) for name, result in results.items()}
    differing: dict[str, str] = {}
    for setting in dict.fromkeys(setting for table in tables.values() for setting in table):
        names: dict[str, list[str]] = {}
        shown: dict[str, str] = {}
        for name, table in tables.items():
            key = json.dumps(table.get(setting), sort_keys=True)
            names.setdefault(key, []).append(name)
            shown[key] = format_setting(table.get(setting))
        if len(names) > 1:
            differing[setting] = ", ".join(f"{shown[key]} ({_format_names(of_key)})" for key, of_key in names.items())
    if differing.keys() - {*_SAMPLING, "curate", _EXERCISES}:
        differing.pop(_EXERCISES, None)
    return f"Settings differ: {'; '.join(map(': '.join, differing.items()))}." if differing else ""


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MAX_NAMES else f"{names[0]} and {len(names) - 1} more"
