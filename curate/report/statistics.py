"""The statistics of a dataset, as in `report.json`.

Queries stream only the columns that they aggregate, so memory does not grow with the dataset.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from curate.dataset.dataset import Dataset
from curate.dataset.evidence import EVIDENCE, EVIDENCE_COLUMNS, PROGRAM_COLUMNS, describe_test_kind, name_programs
from curate.dataset.query import query, read_table
from curate.json_records import to_json
from curate.manifest import Manifest, SelectedBand, SourceCounts
from curate.report.duplicate_section import DuplicateSection, rebuild_duplicate_section
from curate.report.histogram import COUNT_EDGES, SECONDS_EDGES, SHARE_EDGES, compute_histograms, trim_empty_ends

Statistics = dict[str, Any]
STAGES = ("parse", "filter", "verify", "dedup", "decontaminate", "strength", "difficulty")
_BATCH_ROWS = 256  # rows of evidence in memory; they contain texts
_N_BORDERLINE = 5
_N_EXAMPLES = 3
_N_TIGHTEST = 5
_TEXT_CHARACTERS = 1500  # maximum of each text, to limit the size of the page
_MAX_STEPS = 32  # maximum number of bars for solve rates; with more samples, a bar counts several shares
# Stages whose rejections have their own sections in the report.
_STAGES_WITH_OWN_SECTIONS = ("dedup", "decontaminate", "difficulty")
_HIT_COLUMNS = ("row", "id", "set", "item", "rule", "score", "span", "verdict")
_SLOWEST, _LIMIT = "slowest_cpu_seconds", "time_limit_seconds"
_EDGES = {"n_tests": COUNT_EDGES, "test_strength": SHARE_EDGES, _SLOWEST: SECONDS_EDGES, _LIMIT: SECONDS_EDGES}
_TIGHTEST = f"""
    SELECT id, {_SLOWEST}, {_LIMIT}, {_SLOWEST} / {_LIMIT} AS share FROM rows WHERE {_LIMIT} <> 0 AND share IS NOT NULL
    ORDER BY share DESC, id LIMIT {_N_TIGHTEST}
"""
_REJECTIONS = "SELECT stage, reason, cause, source, count(*) AS n FROM rows GROUP BY ALL ORDER BY ALL"
_SOLVE_RATES = "SELECT model, n, n_correct, count(*) AS problems FROM rows GROUP BY ALL ORDER BY ALL"
# The shortest examples of each cause, beginning with those whose solutions were executed.
_EXAMPLES = f"""
    SELECT stage, reason, cause, count(*) AS n, arg_min(rows, {{
        'unexecuted': test IS NULL,
        'length': len(statement) + ifnull(len(input) + len(expected) + list_sum([len(p) FOR p IN programs]), 0),
        'id': id}}, {_N_EXAMPLES}) AS examples
    FROM rows WHERE stage NOT IN {_STAGES_WITH_OWN_SECTIONS} GROUP BY ALL
"""
# The removed rows with the lowest scores, and the kept rows with the highest.
_BORDERLINE = f"""
    SELECT set, verdict, arg_min({{'id': id, 'item': item, 'rule': rule, 'score': score, 'span': span}}, {{
        'score': if(verdict = 'removed', score, -score), 'row': row, 'item': item}}, {_N_BORDERLINE}) AS hits
    FROM rows WHERE rule = 'contained' GROUP BY ALL
"""


def compute_report(dataset: Dataset, duplicates: DuplicateSection | None) -> Statistics:
    """Compute the statistics of a dataset. Sections without data are None or empty.

    duplicates: the section on duplicates from the build; None if unknown

    Raises CurateError for a damaged file.
    """
    manifest = dataset.manifest
    options = manifest.plan.configuration
    columns = _compute_column_statistics(dataset)
    rejections = _build_rejection_section(dataset)
    strength = manifest.build and manifest.build.strength
    return {
        "dataset": _build_dataset_section(manifest, columns),
        "funnel": build_funnel_section(manifest.counts),
        "rejections": rejections,
        "evidence": _build_evidence_section(dataset),
        "tests": trim_empty_ends(columns["n_tests"])[0] if "n_tests" in columns else None,
        "test_strength": _build_test_strength_section(columns, options.get("min_test_strength")),
        "mutants": to_json(strength),
        "reference_time": _build_reference_time_section(dataset, columns),
        "solve_rates": _build_solve_rate_section(dataset, manifest.solve_rate),
        "duplicates": to_json(duplicates or rebuild_duplicate_section(rejections, options.get("dedup"))),
        "contamination": _build_contamination_section(dataset),
    }


def _compute_column_statistics(dataset: Dataset) -> dict[str, Any]:
    """Return histograms and counts of the columns that the dataset has. Excludes math problems."""
    columns = dataset.read_columns("data")
    edges = {name: of_column for name, of_column in _EDGES.items() if name in columns}
    aggregates = ["count(*) FILTER (test_strength = 1) AS n_whole"] if "test_strength" in columns else []
    if "multi_answer_suspect" in columns:
        aggregates.append("count(*) FILTER (multi_answer_suspect) AS multi_answer_suspects")
    if not edges:
        return {}
    where = "expected_answer = ''" if "expected_answer" in columns else "true"
    names = columns & {*edges, "multi_answer_suspect", "expected_answer"}
    return compute_histograms(read_table(dataset, "data", sorted(names)), edges, aggregates, where)


def _build_dataset_section(manifest: Manifest, columns: Mapping[str, Any]) -> dict[str, Any]:
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
        "multi_answer_suspects": columns.get("multi_answer_suspects"),
    }


def _build_test_strength_section(columns: Mapping[str, Any], min_strength: float | None) -> dict[str, Any] | None:
    strength = columns.get("test_strength")
    return strength and {**strength, "n_whole": columns["n_whole"], "least": min_strength}


def build_funnel_section(counts: Mapping[str, SourceCounts]) -> dict[str, Any]:
    """Return for each source the numbers of rows read, remaining after each stage, and kept.

    Lists only the stages with rejections, custom ones last. `verified` is None for datasets that curate did not build.
    """
    rejecting = {stage for count in counts.values() for stage in count.rejected}
    stages = [*(stage for stage in STAGES if stage in rejecting), *sorted(rejecting.difference(STAGES))]
    return {
        "stages": stages,
        "sources": {source: _build_source_funnel(count, stages) for source, count in counts.items()},
    }


def _build_source_funnel(count: SourceCounts, stages: list[str]) -> dict[str, Any]:
    left, after = count.n_read, []
    for stage in stages:
        left -= count.count_rejected(stage)
        after.append(left)
    return {"read": count.n_read, "after": after, "kept": count.n_kept, "verified": count.n_verified}


def _build_rejection_section(dataset: Dataset) -> list[dict[str, Any]]:
    """Return an entry for each stage, reason and cause, sorted by stage, then by frequency."""
    names = ("stage", "reason", "cause", "source")
    by_cause: dict[tuple[str, str, str], dict[str, int]] = {}
    if dataset.read_columns("rejected").issuperset({*names} - {"cause"}):
        for row in query(_REJECTIONS, rows=read_table(dataset, "rejected", names)):
            by_cause.setdefault((row["stage"], row["reason"], row["cause"] or ""), {})[row["source"]] = row["n"]
    entries = [
        {"stage": stage, "reason": reason, "cause": cause, "n": sum(sources.values()), "sources": sources}
        for (stage, reason, cause), sources in by_cause.items()
    ]
    return sorted(entries, key=_make_sort_key)


def _make_sort_key(entry: dict[str, Any]) -> tuple[Any, ...]:
    stage = entry["stage"]
    rank = STAGES.index(stage) if stage in STAGES else len(STAGES)
    return rank, stage, -entry["n"], entry["reason"], entry["cause"]


def _build_contamination_section(dataset: Dataset) -> dict[str, Any]:
    """Return for each evaluation set its counts in the manifest, and the hits closest to the threshold."""
    hits: dict[tuple[str, str], list[dict[str, Any]]] = {}
    if dataset.read_columns("contamination").issuperset(_HIT_COLUMNS):
        rows = query(_BORDERLINE, rows=read_table(dataset, "contamination", _HIT_COLUMNS))
        hits = {(row["set"], row["verdict"]): row["hits"] for row in rows}
    return {
        name: {
            **{key: getattr(count, key) for key in ("items", "rows", "removed", "removal_rate")},
            "rules": count.removed_by_rule,
            "review": count.n_to_review,
            "window": count.window,
            "warning": count.warning,
            "removed_least": hits.get((name, "removed"), []),
            "kept_most": hits.get((name, "review"), []),
        }
        for name, count in dataset.manifest.decontamination.items()
    }


def _build_evidence_section(dataset: Dataset) -> list[dict[str, Any]]:
    """Return an entry for each stage, reason and cause, with its number of rows and some examples."""
    if not dataset.read_columns(EVIDENCE).issuperset(EVIDENCE_COLUMNS):
        return []
    rows = query(_EXAMPLES, rows=read_table(dataset, EVIDENCE, list(EVIDENCE_COLUMNS), rows=_BATCH_ROWS))
    entries = [row | {"examples": [_build_example(example) for example in row["examples"]]} for row in rows]
    return sorted(entries, key=_make_sort_key)


def _build_example(row: dict[str, Any]) -> dict[str, Any]:
    columns = zip(name_programs(row), *(row[name] for name in PROGRAM_COLUMNS), strict=True)
    programs = [
        {
            "name": name,
            "language": language,
            "verdict": verdict,
            "message": message if output is None else "",
            "output": None if output is None else _truncate(output),
            "source": _truncate(source),
        }
        for name, language, verdict, message, output, source in columns
    ]
    example = {"id": row["id"], "detail": row["detail"], "statement": _truncate(row["statement"])}
    if row["test"] is None:
        return example | {"test": None, "programs": []}
    texts = {name: _truncate(row[name]) for name in ("input", "expected")}
    return example | {"test": row["test"], "how": describe_test_kind(row), **texts, "programs": programs}


def _truncate(text: str) -> str:
    return text if len(text) <= _TEXT_CHARACTERS else f"{text[:_TEXT_CHARACTERS]}\n[... cut]"


def _build_reference_time_section(dataset: Dataset, columns: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return histograms of times and limits with the same edges, and the problems closest to their limits.

    Returns None if the dataset lacks these columns.
    """
    if _SLOWEST not in columns or _LIMIT not in columns:
        return None
    slowest, limit = trim_empty_ends(columns[_SLOWEST], columns[_LIMIT])
    tightest = query(_TIGHTEST, rows=read_table(dataset, "data", ("id", _SLOWEST, _LIMIT)))
    return {"slowest": slowest, "limit": limit, "tightest": tightest}


def _build_solve_rate_section(dataset: Dataset, selected_band: SelectedBand | None) -> list[dict[str, Any]]:
    """Return an entry for each model in `difficulty/`, sorted by name.

    selected_band: the band by which the problems were selected; None if they were not

    `steps` is the most frequent number of samples. Item i of `counts` is the number of problems with solve rates
    nearest to i / steps.
    """
    names = ("model", "n", "n_correct")
    if not dataset.read_columns("difficulty").issuperset(names):
        return []
    counts: dict[str, dict[tuple[int, ...], int]] = {}
    for row in query(_SOLVE_RATES, rows=read_table(dataset, "difficulty", names)):
        counts.setdefault(row["model"], {})[row["n"], row["n_correct"]] = row["problems"]
    models = selected_band.models if selected_band else ()
    band = tuple(float(end) for end in selected_band.band.split(":")) if selected_band else (0.0, 1.0)
    return [
        _build_model_entry(model, of_model, band if model in models else None) for model, of_model in counts.items()
    ]


def _build_model_entry(
    model: str, n_problems: dict[tuple[int, ...], int], band: tuple[float, ...] | None
) -> dict[str, Any]:
    """Return the solve rates of a model. n_problems: numbers of problems by (n, n_correct)"""
    scored = {pair: rows for pair, rows in n_problems.items() if pair[0]}
    samples: Counter[int] = Counter()
    for (n, _), rows in scored.items():
        samples[n] += rows
    steps = min(samples.most_common(1)[0][0], _MAX_STEPS) if samples else 1
    counts = [0] * (steps + 1)
    for (n, n_correct), rows in scored.items():
        counts[_find_nearest_step(n_correct, n, steps)] += rows
    low, high = band or (0.0, 1.0)
    inside = sum(rows for (n, n_correct), rows in scored.items() if low <= n_correct / n <= high)
    return {
        "model": model,
        "n": sum(scored.values()),
        "unknown": sum(n_problems.values()) - sum(scored.values()),
        "steps": steps,
        "counts": counts,
        "never": sum(rows for (_, n_correct), rows in scored.items() if n_correct == 0),
        "always": sum(rows for (n, n_correct), rows in scored.items() if n_correct == n),
        "mean": sum(rows * n_correct / n for (n, n_correct), rows in scored.items()) / max(sum(scored.values()), 1),
        "band": list(band) if band else None,
        "in_band": inside if band else None,
    }


def _find_nearest_step(n_correct: int, n: int, steps: int) -> int:
    """Return the step nearest to a solve rate. Only rates of 0 and 1 get the first and last of several steps."""
    if n_correct in (0, n):
        return 0 if n_correct == 0 else steps
    return min(max(round(n_correct / n * steps), 1), steps - 1) if steps > 1 else round(n_correct / n)
