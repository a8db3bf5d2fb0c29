"""The section "Curation"."""

from typing import Any

from benchmarks.render.table import render_table

_DEEPCODER_ROWS = {"taco": 7436, "synthetic1": 16252, "livecodebench": 599}  # of its training set
_DEDUP_ENGINES = {
    "plain": "datasketch, a loop",
    "bulk": "datasketch, in bulk",
    "rensa": "rensa",
    "gaoya": "gaoya",
    "ours": "curate-code",
}


def render_build(measured: dict[str, Any]) -> str:
    """Return a paragraph and tables about a build with programs, and a table about synthetic rows."""
    programs, rows = measured["programs"], measured["rows"]
    build = programs["measured"]
    summary = (
        f"`curate build-dataset` on {build['rows']} real problems of the three sources took"
        f" {build['wall_seconds']:.0f} s on {build['workers']} cores;"
        f" the programs it executed needed {build['executed_cpu_seconds']:.0f} s of CPU time:"
        f" wall time is {build['ratio']:.2f} times CPU time divided by cores. Measured on {programs['machine']}."
    )
    heads = (
        "synthetic rows", "cores", "minutes", "rows per second", "peak MB", "raw MB", "working files MB", "dataset MB",
    )  # fmt: skip
    columns = ("rows_per_second", "peak_mb", "raw_mb", "work_mb", "dataset_mb")
    cells = (
        (f"{build['rows']:,}", build["cores"], f"{build['wall_seconds'] / 60:.1f}",
         *(f"{build[column]:,.0f}" for column in columns))
        for build in rows["measured"]
    )  # fmt: skip
    about = f"`curate build-dataset` without programs. Measured on {rows['machine']}."
    parts = (summary, _render_funnel(build["funnel"]), _extrapolate(build), render_table("r", heads, cells), about)
    return "\n\n".join(parts)


def _render_funnel(funnel: dict[str, Any]) -> str:
    """Return the rows kept and rejected by source, and the rows that DeepCoder kept."""
    stages = list(dict.fromkeys(stage for counts in funnel.values() for stage in counts["rejected"]))
    n_ours, n_theirs = sum(counts["kept"] for counts in funnel.values()), sum(_DEEPCODER_ROWS.values())
    rows = []
    for source, counts in funnel.items():
        rejected = [sum(counts["rejected"].get(stage, {}).values()) for stage in stages]
        kept, theirs = counts["kept"], _DEEPCODER_ROWS[source]
        ours = [kept, f"{kept / counts['read']:.0%}", f"{kept / n_ours:.0%}"]
        rows.append([source, counts["read"], *rejected, *ours, f"{theirs:,}", f"{theirs / n_theirs:.0%}"])
    rejecting = (f"rejected: {stage}" for stage in stages)
    heads = ["source", "read", *rejecting, "kept", "of read", "of all kept", "kept by DeepCoder", "of all kept"]
    return render_table("lr", heads, rows)


def _extrapolate(build: dict[str, Any]) -> str:
    """Return the costs of DeepCoder's training set, extrapolated from a build."""
    funnel = build["funnel"].items()
    to_read = sum(_DEEPCODER_ROWS[source] * counts["read"] / counts["kept"] for source, counts in funnel)
    n_kept = sum(_DEEPCODER_ROWS.values())
    core_hours = build["wall_seconds"] * build["workers"] / build["rows"] * to_read / 3600
    work_gb = build["work_mb"] / build["rows"] * to_read / 1000
    dataset_gb = build["dataset_mb"] / build["kept"] * n_kept / 1000
    return (
        f"Extrapolated from these rows, not measured: DeepCoder's {n_kept:,} problems take {to_read:,.0f} rows to read"
        f" at these shares, {core_hours:.0f} core hours, {work_gb:.1f} GB of working files and {dataset_gb:.2f} GB"
        " for the dataset. Rows with more or larger tests need more."
    )


def render_strength(measured: dict[str, Any]) -> str:
    groups = {
        "submissions": "submissions labeled wrong",
        "others": "mutants of another solution",
        "unseen": "mutants held out from the selection",
    }
    choices = {"first": "first", "longest": "longest", "blind": "sampled uniformly", "strongest": "strongest"}
    budgets = ("3", "5", "8", "15")
    rows = []
    for group, name in groups.items():
        failing = measured["wrong_programs"][group]["failing"]
        for choice, label in choices.items():
            counts = (f"{failing['let_through'][choice][budget]:.0f}" for budget in budgets)
            rows.append([f"{label}, of {failing['wrong_programs']} {name}", *counts])
    share = measured["share"]
    return render_table(
        "l", ["wrong programs accepted, by selection", *(f"{budget} tests" for budget in budgets)], rows
    ) + (
        f"\n\nTest strength of {measured['measured']} real problems: {measured['killed']:,} of"
        f" {measured['mutants'] - measured['equivalent']:,} mutants rejected ({measured['equivalent']} more were"
        f" equivalent), median {share['median']:.2f}, lowest {share['least']:.2f},"
        f" {share['at_least_0.9']:.0%} of the problems at least 0.9. Measured on {measured['machine']}."
    )


def render_dedup(measured: dict[str, Any]) -> str:
    rows, machines = [], []
    for documents in sorted(measured, key=int):
        for engine, name in _DEDUP_ENGINES.items():
            if found := measured[documents].get(engine):
                machines.append(found["machine"])
                quality = (f"{found[column]:.4f}" for column in ("recall", "precision"))
                rate, peak = f"{found['documents_per_cpu_second']:,.0f}", f"{found['peak_mb']:,.0f}"
                rows.append((f"{int(documents):,}", name, rate, *quality, peak))
    heads = ("documents", "library", "documents per CPU second", "recall", "precision", "peak MB")
    return render_table("rlr", heads, rows) + (
        "\n\nFrom text to clusters, on synthetic statements, at a Jaccard similarity of 0.7 or more;"
        f" benchmarks/dedup.py defines the columns. Measured on {'; '.join(dict.fromkeys(machines))}."
    )


RENDERERS = {"build": render_build, "strength": render_strength, "dedup": render_dedup}
