"""The section "Curation"."""

from collections.abc import Iterator
from typing import Any

from benchmarks.render.table import join_cells, render_table

_DEEPCODER_ROWS = {"taco": 7436, "synthetic1": 16252, "livecodebench": 599}  # of its training set
_DEDUP_ENGINES = {
    "bulk": "datasketch",
    "rensa": "rensa",
    "gaoya": "gaoya",
    "ours": "curate-code",
}


def render_build(measured: dict[str, Any]) -> Iterator[str]:
    """Yield a paragraph and tables about a build with programs, and a table about synthetic rows."""
    programs, build = measured["programs"], measured["programs"]["measured"]
    yield (
        f"`curate build-dataset` on {build['rows']} real problems of the three sources took"
        f" {build['wall_seconds']:.0f} s on {build['workers']} cores;"
        f" the programs it executed needed {build['executed_cpu_seconds']:.0f} s of CPU time:"
        f" wall time is {build['ratio']:.2f} times CPU time divided by cores. Measured on {programs['machine']}."
    )
    yield _render_funnel(build["funnel"])
    yield _extrapolate(build)
    columns = ("rows_per_second", "peak_mb", "raw_mb", "work_mb", "dataset_mb")
    rows = (
        join_cells(
            f"{each['rows']:,} | {each['cores']} | {each['wall_seconds'] / 60:.1f}",
            *(f"{each[column]:,.0f}" for column in columns),
        )
        for each in measured["rows"]["measured"]
    )
    heads = "synthetic rows | cores | minutes | rows per second | peak MB | raw MB | working files MB | dataset MB"
    yield render_table(heads, rows, "r")
    yield f"`curate build-dataset` without programs. Measured on {measured['rows']['machine']}."


def _render_funnel(funnel: dict[str, Any]) -> str:
    """Return the rows kept and rejected by source, and the rows that DeepCoder kept."""
    stages = list(dict.fromkeys(stage for counts in funnel.values() for stage in counts["rejected"]))
    n_ours, n_theirs = sum(counts["kept"] for counts in funnel.values()), sum(_DEEPCODER_ROWS.values())
    rows = []
    for source, counts in funnel.items():
        rejected = (sum(counts["rejected"].get(stage, {}).values()) for stage in stages)
        read, kept, theirs = counts["read"], counts["kept"], _DEEPCODER_ROWS[source]
        shares = f"{kept} | {kept / read:.0%} | {kept / n_ours:.0%} | {theirs:,} | {theirs / n_theirs:.0%}"
        rows.append(join_cells(source, read, *rejected, shares))
    rejecting = (f"rejected: {stage}" for stage in stages)
    heads = join_cells("source | read", *rejecting, "kept | of read | of all kept | kept by DeepCoder | of all kept")
    return render_table(heads, rows)


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


def render_strength(measured: dict[str, Any]) -> Iterator[str]:
    groups = {
        "submissions": "submissions labeled wrong",
        "others": "mutants of another solution",
        "unseen": "mutants held out from the selection",
    }
    selections = {"first": "first", "longest": "longest", "blind": "sampled uniformly", "strongest": "strongest"}
    rows = []
    for group, name in groups.items():
        failing = measured["wrong_programs"][group]["failing"]
        for selection, label in selections.items():
            counts = (f"{count:.0f}" for count in failing["let_through"][selection].values())
            rows.append(join_cells(f"{label}, of {failing['wrong_programs']} {name}", *counts))
    share = measured["share"]
    yield render_table("wrong programs accepted, by selection | 3 tests | 5 tests | 8 tests | 15 tests", rows)
    yield (
        f"Test strength of {measured['measured']} real problems: {measured['killed']:,} of"
        f" {measured['mutants'] - measured['equivalent']:,} mutants rejected ({measured['equivalent']} more were"
        f" equivalent), median {share['median']:.2f}, lowest {share['least']:.2f},"
        f" {share['at_least_0.9']:.0%} of the problems at least 0.9."
    )


def render_dedup(measured: dict[str, Any]) -> Iterator[str]:
    rows, machines = [], []
    for documents in sorted(measured, key=int):
        for engine, name in _DEDUP_ENGINES.items():
            if found := measured[documents].get(engine):
                machines.append(found["machine"])
                rows.append(
                    f"{int(documents):,} | {name} | {found['documents_per_cpu_second']:,.0f} | {found['recall']:.4f} |"
                    f" {found['precision']:.4f} | {found['peak_mb']:,.0f}"
                )
    yield render_table("documents | library | documents per CPU second | recall | precision | peak MB", rows, "rlr")
    yield (
        "From text to clusters, on synthetic statements, at a Jaccard similarity of 0.7 or more; benchmarks/dedup.py"
        f" defines the columns. Measured on {'; '.join(dict.fromkeys(machines))}."
    )


RENDERERS = {"build": render_build, "strength": render_strength, "dedup": render_dedup}
