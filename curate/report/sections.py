"""The sections of the report as plain values, which are the content of `report.json`. compute_report names them all."""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from curate.dataset.dataset import Dataset
from curate.dataset.evidence import EVIDENCE, EVIDENCE_COLUMNS, PROGRAM_COLUMNS, judging_description, program_names
from curate.json_records import to_json
from curate.manifest import Manifest, SelectedBand, SourceCounts
from curate.report.duplicate_section import DuplicateSection, rebuild_duplicate_section
from curate.report.histogram import COUNT_EDGES, SECONDS_EDGES, SHARE_EDGES, histogram, numeric_columns

if TYPE_CHECKING:
    from curate.report.histogram import Values

Numbers = dict[str, Any]
STAGES = ("parse", "filter", "verify", "dedup", "decontaminate", "strength", "difficulty")
_BATCH_ROWS = 65_536
_N_BORDERLINE = 5
_N_EXAMPLES = 3
_N_TIGHTEST = 5
_TEXT_CHARACTERS = 1500  # of each text, which limits the size of the page
_MAX_STEPS = 32  # bars; if there are more samples than this, neighbouring shares are counted together
_ELSEWHERE = ("dedup", "decontaminate", "difficulty")  # other sections show why these stages reject rows
_NUMBER_COLUMNS = ("n_tests", "slowest_cpu_seconds", "time_limit_seconds", "test_strength", "multi_answer_suspect")
_HIT_COLUMNS = ("id", "set", "item", "rule", "score", "span", "verdict")
_SOLVE_RATE_COLUMNS = ("model", "n", "n_correct")
_SLOWEST, _LIMIT = "slowest_cpu_seconds", "time_limit_seconds"
_Ranked = tuple[int, str, dict[str, Any]]


def compute_report(dataset: Dataset, duplicates: DuplicateSection | None) -> Numbers:
    """Compute the sections of the report.

    duplicates: the section that the build has computed, if it is known

    Only those columns of the rows are read that are counted. Sections about things that a dataset does not have are
    None or empty. Raises CurateError if a file is damaged.
    """
    manifest = dataset.manifest
    options = manifest.plan.configuration
    columns = numeric_columns(dataset, _NUMBER_COLUMNS)
    strength = manifest.build and manifest.build.strength
    return {
        "dataset": _dataset_section(manifest, columns),
        "funnel": build_funnel_section(manifest.counts),
        "rejections": _rejection_section(dataset),
        "evidence": _evidence_section(dataset),
        "tests": histogram(columns["n_tests"], COUNT_EDGES) if "n_tests" in columns else None,
        "test_strength": _test_strength_section(columns, options.get("min_test_strength")),
        "mutants": to_json(strength),
        "reference_time": _reference_time_section(dataset, columns),
        "solve_rates": _solve_rate_section(dataset, manifest.solve_rate),
        "duplicates": to_json(duplicates or rebuild_duplicate_section(dataset, options.get("dedup"))),
        "contamination": _contamination_section(dataset),
    }


def _dataset_section(manifest: Manifest, columns: "dict[str, Values]") -> dict[str, Any]:
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


def _test_strength_section(columns: "dict[str, Values]", least: float | None) -> dict[str, Any] | None:
    strength = columns.get("test_strength")
    if strength is None:
        return None
    return {**histogram(strength, SHARE_EDGES, trim=False), "n_whole": int((strength == 1).sum()), "least": least}


def build_funnel_section(counts: Mapping[str, SourceCounts]) -> dict[str, Any]:
    """Return for each source how many rows were read, how many were left after each stage, and how many stay.

    Stages in which no source lost a row are left out; custom stages follow those that curate knows. `verified` is None
    for datasets that curate did not build.
    """
    happened = {stage for count in counts.values() for stage in count.rejected}
    stages = [*(stage for stage in STAGES if stage in happened), *sorted(happened.difference(STAGES))]
    return {"stages": stages, "sources": {source: _funnel_of_source(count, stages) for source, count in counts.items()}}


def _funnel_of_source(count: SourceCounts, stages: list[str]) -> dict[str, Any]:
    left, after = count.n_read, []
    for stage in stages:
        left -= count.rejected_in(stage)
        after.append(left)
    return {"read": count.n_read, "after": after, "kept": count.n_kept, "verified": count.n_verified}


def _rejection_section(dataset: Dataset) -> list[dict[str, Any]]:
    """Return an entry for each stage, reason and cause that occurs. Each stage begins with its most frequent one."""
    names = [name for name in ("source", "stage", "reason", "cause") if name in dataset.columns("rejected")]
    if not {"source", "stage", "reason"}.issubset(names):
        return []
    counted: Counter[tuple[str, ...]] = Counter()
    for batch in dataset.batches("rejected", names, rows=_BATCH_ROWS):
        counted.update(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
    by_cause: dict[tuple[str, str, str], dict[str, int]] = {}
    for (source, stage, reason, *rest), n in sorted(counted.items()):
        cause = rest[0] if rest else ""
        by_cause.setdefault((stage, reason, cause), {})[source] = n
    entries = [
        {"stage": stage, "reason": reason, "cause": cause, "n": sum(sources.values()), "sources": sources}
        for (stage, reason, cause), sources in by_cause.items()
    ]
    return sorted(entries, key=_sort_key)


def _sort_key(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key by which entries for a stage, reason and cause are sorted."""
    stage = entry["stage"]
    place = STAGES.index(stage) if stage in STAGES else len(STAGES)
    return place, stage, -entry["n"], entry["reason"], entry["cause"]


def _contamination_section(dataset: Dataset) -> dict[str, Any]:
    """Return for each evaluation set its counts in the manifest, and the hits by shared words closest to the border.

    These are the least similar rows that were removed and the most similar rows that stayed. The result is empty if no
    set was compared.
    """
    return {
        name: {
            **{key: getattr(count, key) for key in ("items", "rows", "removed", "removal_rate")},
            "rules": count.removed_by_rule,
            "review": count.n_to_review,
            "window": count.window,
            "warning": count.warning,
            "removed_least": heapq.nsmallest(_N_BORDERLINE, _contamination_hits(dataset, name, "removed"), key=_score),
            "kept_most": heapq.nlargest(_N_BORDERLINE, _contamination_hits(dataset, name, "review"), key=_score),
        }
        for name, count in dataset.manifest.decontamination.items()
    }


def _contamination_hits(dataset: Dataset, of_set: str, verdict: str) -> Iterator[dict[str, Any]]:
    if dataset.columns("contamination").issuperset(_HIT_COLUMNS):
        for hit in dataset.rows("contamination", _HIT_COLUMNS):
            if (hit["set"], hit["verdict"], hit["rule"]) == (of_set, verdict, "contained"):
                yield {name: hit[name] for name in ("id", "item", "rule", "score", "span")}


def _score(hit: dict[str, Any]) -> float:
    score: float = hit["score"]
    return score


def _evidence_section(dataset: Dataset) -> list[dict[str, Any]]:
    """Return an entry for each stage, reason and cause, with the number of its rows and the shortest examples.

    Rows whose solutions were executed are preferred as examples.
    """
    if not dataset.columns(EVIDENCE).issuperset(EVIDENCE_COLUMNS):
        return []
    numbers: dict[tuple[str, str, str], int] = {}
    examples: dict[tuple[str, str, str], list[_Ranked]] = {}
    for row in dataset.rows(EVIDENCE, list(EVIDENCE_COLUMNS)):
        key = row["stage"], row["reason"], row["cause"]
        if key[0] not in _ELSEWHERE:
            numbers[key] = numbers.get(key, 0) + 1
            ranked = [*examples.get(key, ()), (_reading_length(row), row["id"], row)]
            examples[key] = heapq.nsmallest(_N_EXAMPLES, ranked, key=lambda example: example[:2])
    entries = [
        {
            "stage": stage,
            "reason": reason,
            "cause": cause,
            "n": n,
            "examples": [_example(row) for _, _, row in examples[stage, reason, cause]],
        }
        for (stage, reason, cause), n in numbers.items()
    ]
    return sorted(entries, key=_sort_key)


def _reading_length(row: dict[str, Any]) -> int:
    """Return how much there is to read, and more than any such length for a row without a test."""
    if row["test"] is None:
        return 10**9 + len(row["statement"])
    return len(row["statement"]) + len(row["input"]) + len(row["expected"]) + sum(map(len, row["programs"]))


def _example(row: dict[str, Any]) -> dict[str, Any]:
    columns = zip(program_names(row), *(row[name] for name in PROGRAM_COLUMNS), strict=True)
    programs = [
        {
            "name": name,
            "language": language,
            "verdict": verdict,
            "message": message if output is None else "",
            "output": None if output is None else _beginning(output),
            "source": _beginning(source),
        }
        for name, language, verdict, message, output, source in columns
    ]
    example = {"id": row["id"], "detail": row["detail"], "statement": _beginning(row["statement"])}
    if row["test"] is None:
        return example | {"test": None, "programs": []}
    texts = {name: _beginning(row[name]) for name in ("input", "expected")}
    return example | {"test": row["test"], "how": judging_description(row), **texts, "programs": programs}


def _beginning(text: str) -> str:
    return text if len(text) <= _TEXT_CHARACTERS else f"{text[:_TEXT_CHARACTERS]}\n[... cut]"


def _reference_time_section(dataset: Dataset, columns: "dict[str, Values]") -> dict[str, Any] | None:
    """Return histograms of times and limits with the same edges, and the problems with the least time to spare.

    Returns None if the dataset has no such columns.
    """
    import numpy as np

    if _SLOWEST not in columns or _LIMIT not in columns:
        return None
    slowest, limits = columns[_SLOWEST], columns[_LIMIT]
    both = histogram(np.concatenate((slowest, limits)), SECONDS_EDGES)
    edges = [float("inf") if edge is None else edge for edge in both["edges"]]
    return {
        "slowest": histogram(slowest, edges, trim=False),
        "limit": histogram(limits, edges, trim=False),
        "tightest": _tightest(dataset),
    }


def _tightest(dataset: Dataset) -> list[dict[str, Any]]:
    best: list[tuple[float, str, float, float]] = []
    for batch in dataset.batches("data", ("id", _SLOWEST, _LIMIT), rows=_BATCH_ROWS):
        ids, slowest, limits = (batch.column(name).to_pylist() for name in ("id", _SLOWEST, _LIMIT))
        shares = (
            (-seconds / limit, id, seconds, limit)
            for id, seconds, limit in zip(ids, slowest, limits, strict=True)
            if seconds is not None and limit
        )
        best = heapq.nsmallest(_N_TIGHTEST, [*best, *heapq.nsmallest(_N_TIGHTEST, shares)])
    return [
        {"id": id, "slowest_cpu_seconds": slowest, "time_limit_seconds": limit, "share": -share}
        for share, id, slowest, limit in best
    ]


def _solve_rate_section(dataset: Dataset, selected_band: SelectedBand | None) -> list[dict[str, Any]]:
    """Return an entry for each model in `difficulty/`, by name.

    selected_band: the band that the dataset was reduced to; None if it was not reduced

    Shares are i / steps, where `steps` is the usual number of samples, and `counts` has the number of problems that
    are nearest to each share.
    """
    if not dataset.columns("difficulty").issuperset(_SOLVE_RATE_COLUMNS):
        return []
    counted: Counter[tuple[str, int, int]] = Counter()
    for batch in dataset.batches("difficulty", _SOLVE_RATE_COLUMNS, rows=_BATCH_ROWS):
        counted.update(zip(*(batch.column(name).to_pylist() for name in _SOLVE_RATE_COLUMNS), strict=True))
    models = sorted({model for model, _, _ in counted})
    filtered = selected_band.models if selected_band else ()
    band = tuple(float(end) for end in selected_band.band.split(":")) if selected_band else (0.0, 1.0)
    return [
        _solve_rates_of_model(
            model,
            {key[1:]: rows for key, rows in counted.items() if key[0] == model},
            band if model in filtered else None,
        )
        for model in models
    ]


def _solve_rates_of_model(
    model: str, counted: dict[tuple[int, ...], int], band: tuple[float, ...] | None
) -> dict[str, Any]:
    scored = {pair: rows for pair, rows in counted.items() if pair[0]}
    samples: Counter[int] = Counter()
    for (n, _), rows in scored.items():
        samples[n] += rows
    steps = min(samples.most_common(1)[0][0], _MAX_STEPS) if samples else 1
    counts = [0] * (steps + 1)
    for (n, n_correct), rows in scored.items():
        counts[_nearest_step(n_correct, n, steps)] += rows
    low, high = band or (0.0, 1.0)
    inside = sum(rows for (n, right), rows in scored.items() if low <= right / n <= high)
    return {
        "model": model,
        "n": sum(scored.values()),
        "unknown": sum(counted.values()) - sum(scored.values()),
        "steps": steps,
        "counts": counts,
        "never": sum(rows for (_, right), rows in scored.items() if right == 0),
        "always": sum(rows for (n, right), rows in scored.items() if right == n),
        "mean": sum(rows * right / n for (n, right), rows in scored.items()) / max(sum(scored.values()), 1),
        "band": list(band) if band else None,
        "in_band": inside if band else None,
    }


def _nearest_step(right: int, n: int, steps: int) -> int:
    """Return the nearest step. Problems that are never or always solved have bars of their own despite rounding."""
    if right in (0, n):
        return 0 if right == 0 else steps
    return min(max(round(right / n * steps), 1), steps - 1) if steps > 1 else round(right / n)
