"""Everything that the report says, as plain values for JSON: the content of `report.json`."""

from collections.abc import Sequence
from typing import Any

from curate.dataset.folder import DatasetFolder
from curate.report.columns import number_columns
from curate.report.contamination import contamination
from curate.report.duplicates import duplicates
from curate.report.funnel import funnel
from curate.report.histogram import SHARES, WHOLE, histogram
from curate.report.reference_time import reference_time
from curate.report.rejections import rejections
from curate.report.solve_rates import solve_rates

Numbers = dict[str, Any]
_COLUMNS = ("n_tests", "slowest_cpu_seconds", "time_limit_seconds", "test_strength", "multi_answer_suspect")


def numbers(dataset: DatasetFolder, pairs: Sequence[dict[str, Any]] = ()) -> Numbers:
    """Compute the sections of the report. pairs: what `least_similar` gave when the dataset was built.

    Of the rows only the columns that are counted are read. Sections of what a dataset does not have are None or
    empty. Raises CurateError on a damaged file.
    """
    manifest = dataset.manifest
    options = manifest["plan"].get("configuration", {})
    columns = number_columns(dataset, _COLUMNS)
    strength, suspects = columns.get("test_strength"), columns.get("multi_answer_suspect")
    return {
        "dataset": {
            "curate": manifest["plan"].get("curate"),
            "content_hash": manifest["content_hash"],
            "options": options,
            "inputs": manifest["plan"].get("inputs", {}),
            "seconds": manifest.get("seconds", {}),
            "executed_cpu_seconds": manifest.get("executed_cpu_seconds"),
            "warnings": _warnings(manifest),
            "multi_answer_suspects": None if suspects is None else int(suspects.sum()),
        },
        "funnel": funnel(manifest["counts"]),
        "rejections": rejections(dataset),
        "tests": histogram(columns["n_tests"], WHOLE) if "n_tests" in columns else None,
        "test_strength": None
        if strength is None
        else {
            **histogram(strength, SHARES, trim=False),
            "n_whole": int((strength == 1).sum()),
            "least": options.get("min_test_strength"),
        },
        "mutants": manifest.get("strength"),
        "reference_time": reference_time(dataset, columns),
        "solve_rates": solve_rates(dataset, manifest.get("solve_rate")),
        "duplicates": {**duplicates(dataset, options.get("dedup")), "least_similar": list(pairs)},
        "contamination": contamination(dataset),
    }


def _warnings(manifest: dict[str, Any]) -> list[str]:
    """What the commands that made the dataset warned of."""
    sets = manifest.get("decontamination") or {}
    said = {**sets, "solve rate": manifest.get("solve_rate") or {}}
    return [f"{name}: {found['warning']}" for name, found in said.items() if found.get("warning")]
