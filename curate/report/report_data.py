"""Compute all numbers of the report as plain values, which are the content of `report.json`."""

from typing import TYPE_CHECKING, Any

from curate.dataset.dataset import Dataset
from curate.json_records import to_json
from curate.manifest import Manifest
from curate.report.columns import numeric_columns
from curate.report.contamination import build_contamination_section
from curate.report.duplicate_section import DuplicateSection, rebuild_duplicate_section
from curate.report.evidence import build_evidence_section
from curate.report.funnel import build_funnel_section
from curate.report.histogram import COUNT_EDGES, SHARE_EDGES, histogram
from curate.report.reference_time import reference_runtime_section
from curate.report.rejections import build_rejection_section
from curate.report.solve_rates import build_solve_rate_section

if TYPE_CHECKING:
    from curate.report.histogram import Values

Numbers = dict[str, Any]
_COLUMNS = ("n_tests", "slowest_cpu_seconds", "time_limit_seconds", "test_strength", "multi_answer_suspect")


def compute_report(dataset: Dataset, duplicates: DuplicateSection | None) -> Numbers:
    """Compute the sections of the report.

    duplicates: the section that the build has computed, if it is known

    Only those columns of the rows are read that are counted. Sections about things that a dataset does not have are
    None or empty. Raises CurateError if a file is damaged.
    """
    manifest = dataset.manifest
    options = manifest.plan.configuration
    columns = numeric_columns(dataset, _COLUMNS)
    strength = manifest.build and manifest.build.strength
    return {
        "dataset": _dataset(manifest, columns),
        "funnel": build_funnel_section(manifest.counts),
        "rejections": build_rejection_section(dataset),
        "evidence": build_evidence_section(dataset),
        "tests": histogram(columns["n_tests"], COUNT_EDGES) if "n_tests" in columns else None,
        "test_strength": _test_strength(columns, options.get("min_test_strength")),
        "mutants": to_json(strength),
        "reference_time": reference_runtime_section(dataset, columns),
        "solve_rates": build_solve_rate_section(dataset, manifest.solve_rate),
        "duplicates": to_json(duplicates or rebuild_duplicate_section(dataset, options.get("dedup"))),
        "contamination": build_contamination_section(dataset),
    }


def _dataset(manifest: Manifest, columns: "dict[str, Values]") -> dict[str, Any]:
    suspects = columns.get("multi_answer_suspect")
    return {
        "name": manifest.name,
        "date": manifest.date,
        "curate": manifest.plan.curate_version,
        "content_hash": manifest.content_hash,
        "reward_hash": manifest.reward_hash,
        "options": to_json(manifest.plan.configuration),
        "inputs": to_json(manifest.plan.inputs),
        "seconds": to_json(manifest.seconds),
        "executed_cpu_seconds": manifest.build and manifest.build.executed_cpu_seconds,
        "warnings": manifest.warnings,
        "multi_answer_suspects": None if suspects is None else int(suspects.sum()),
    }


def _test_strength(columns: "dict[str, Values]", least: float | None) -> dict[str, Any] | None:
    strength = columns.get("test_strength")
    if strength is None:
        return None
    return {**histogram(strength, SHARE_EDGES, trim=False), "n_whole": int((strength == 1).sum()), "least": least}
