"""Format the numbers of the report as lines for a terminal."""

from collections.abc import Iterator
from typing import Any

from curate.report.charts import range_label
from curate.report.sections import Numbers
from curate.text.printable import escape_unprintable, format_table

_BAR = 40  # characters of the longest


def format_report(numbers: Numbers) -> Iterator[str]:
    """Yield all tables, one after another, each with a heading."""
    funnel = numbers["funnel"]
    stages, sources = funnel["stages"], funnel["sources"]
    kept = sum(count["kept"] for count in sources.values())
    yield f"{kept} of {sum(count['read'] for count in sources.values())} problems were kept"
    if numbers["dataset"]["reward_hash"]:
        yield f"reward hash {numbers['dataset']['reward_hash']}"
    yield f"content hash {numbers['dataset']['content_hash']}"
    yield from (f"Warning: {escape_unprintable(warning)}" for warning in numbers["dataset"]["warnings"])
    yield from _section("What became of the rows", _funnel(stages, sources))
    yield from _section("Why rows fell out", _rejections(numbers["rejections"], list(sources)))
    yield from _section("Measures", _measures(numbers))
    if numbers["tests"] and numbers["tests"]["n"]:
        yield from _section("Tests per problem", _bars(*_runs(numbers["tests"])))
    strength = numbers["test_strength"]
    if strength and strength["n"]:
        yield from _section("Test strength: share of wrong programs caught", _bars(*_ranges(strength)))
        yield f"  {strength['n_whole']} of {strength['n']} caught every one"
    mutants = numbers["mutants"]
    if mutants and mutants["survivors"]:
        survivors = [list(pair) for pair in mutants["survivors"].items()]
        yield from _section("Wrong programs that no test caught", format_table(["mistake", "programs"], survivors))
    time = numbers["reference_time"]
    if time and time["slowest"]["n"]:
        yield from _section("CPU seconds of the reference at its slowest test", _bars(*_ranges(time["slowest"])))
        yield from _section("Closest to their time limit", _tightest(time["tightest"]))
    for rates in numbers["solve_rates"]:
        yield from _section(f"Solve rate of {escape_unprintable(rates['model'])}", _solve_rate(rates))
    duplicates = numbers["duplicates"]
    if duplicates["n_near"]:
        yield from _section("Similarity of near-duplicates to the row kept", _bars(*_ranges(duplicates["similarity"])))
    if duplicates["sources"]:
        yield from _section(
            "Duplicates by source: removed (down), kept (across)",
            format_table(
                ["", *duplicates["sources"]],
                [[name, *row] for name, row in zip(duplicates["sources"], duplicates["removed_by_kept"], strict=True)],
            ),
        )
    if numbers["contamination"]:
        yield from _section("Contamination", _contamination(numbers["contamination"]))


def _section(title: str, content: Iterator[str]) -> Iterator[str]:
    yield f"\n{title}\n"
    yield from (f"  {line}" for line in content)


def _funnel(stages: list[str], sources: dict[str, Any]) -> Iterator[str]:
    rows: list[list[Any]] = []
    for source, count in sources.items():
        left = [count["read"], *count["after"]]
        lost = [after - before or None for before, after in zip(left, left[1:], strict=False)]
        rows.append([source, count["read"], *lost, count["kept"], count["verified"]])
    if len(rows) > 1:
        sums = [[value for value in column if value is not None] for column in list(zip(*rows, strict=True))[1:]]
        rows.append(["all", *(sum(column) if column else None for column in sums)])
    return format_table(["source", "read", *stages, "kept", "verified"], rows)


def _rejections(entries: list[dict[str, Any]], sources: list[str]) -> Iterator[str]:
    if not entries:
        return iter(["no row fell out"])
    rows = [
        [e["stage"], e["reason"], e["cause"], e["n"], *(e["sources"].get(source) for source in sources)]
        for e in entries
    ]
    return format_table(["stage", "reason", "cause", "rows", *sources], rows)


def _measures(numbers: Numbers) -> Iterator[str]:
    time = numbers["reference_time"] or {}
    measures = {
        "tests per problem": numbers["tests"],
        "test strength": numbers["test_strength"],
        "reference, slowest test, CPU seconds": time.get("slowest"),
        "time limit, seconds": time.get("limit"),
        "similarity of near-duplicates": numbers["duplicates"]["similarity"],
    }
    rows = [
        [name, *(summary[key] for key in ("n", "unknown", "min", "median", "max"))]
        if summary
        else [name, 0, *[None] * 4]
        for name, summary in measures.items()
    ]
    return format_table(["measure", "known", "unknown", "least", "median", "most"], rows)


def _tightest(rows: list[dict[str, Any]]) -> Iterator[str]:
    names = ("slowest_cpu_seconds", "time_limit_seconds", "share")
    return format_table(
        ["problem", "reference s", "limit s", "share"], [[row["id"], *(row[name] for name in names)] for row in rows]
    )


def _solve_rate(rates: dict[str, Any]) -> Iterator[str]:
    summary = f"mean {rates['mean']:.3g}, never solved {rates['never']}, always {rates['always']} of {rates['n']}"
    if rates["band"]:
        low, high = rates["band"]
        summary += f"; {rates['in_band']} in the chosen band, {low:g} to {high:g}"
    yield summary
    steps = rates["steps"]
    yield from _bars([f"{step / steps:.3g}" for step in range(steps + 1)], rates["counts"])


def _contamination(sets: dict[str, Any]) -> Iterator[str]:
    keys = ("items", "rows", "removed", "removal_rate", "review")
    yield from format_table(
        ["evaluation set", "items", "rows compared", "removed", "rate", "for review"],
        [[f"{name} {count['window'] or ''}".strip(), *(count[key] for key in keys)] for name, count in sets.items()],
    )


def _runs(histogram: dict[str, Any]) -> tuple[list[str], list[int]]:
    edges = histogram["edges"]
    names = [range_label(low, high).replace("\N{EN DASH}", "-") for low, high in zip(edges, edges[1:], strict=False)]
    return names, histogram["counts"]


def _ranges(histogram: dict[str, Any]) -> tuple[list[str], list[int]]:
    edges = histogram["edges"]
    names = [
        f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
        for low, high in zip(edges, edges[1:], strict=False)
    ]
    return names, histogram["counts"]


def _bars(names: list[str], counts: list[int]) -> Iterator[str]:
    """Yield a bar for each count, except empty ones at both ends."""
    filled = [place for place, count in enumerate(counts) if count]
    if filled:
        names, counts = names[filled[0] : filled[-1] + 1], counts[filled[0] : filled[-1] + 1]
    most, width = max(counts, default=0), max(map(len, names), default=0)
    for name, count in zip(names, counts, strict=True):
        yield f"{name:<{width}}  {count:>{len(str(most))}}  {'#' * -(-_BAR * count // max(most, 1))}".rstrip()
