"""The sections of the report: all on the page, those without exhibits on a terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curate.dataset.contamination_hits import tabulate_set_counts
from curate.dataset.evidence import SUSPECT_REASON
from curate.report.statistics import Statistics
from curate.report.word_diff import mark_differences
from curate.text.document import (
    Cell,
    Chart,
    Code,
    Exhibit,
    Seconds,
    Section,
    Share,
    Side,
    Table,
    Text,
    format_seconds,
    format_share,
    format_value,
)

_MAX_FILES = 20  # maximum number of files to list for a source


@dataclass(frozen=True, slots=True)
class Chapter:
    """Sections under one heading.

    id    anchor on the page
    lead  text below the heading
    """

    id: str
    title: str
    lead: str
    sections: Sequence[Section]


def build_chapters(statistics: Statistics) -> list[Chapter]:
    """Return all chapters of the report, in order. Sections without data have a note that explains why."""
    duplicates, n_rejected = statistics["duplicates"], sum(entry["n"] for entry in statistics["rejections"])
    funnel = "Rows of each source that remain after each stage."
    rejected = f"{n_rejected:,} rows, by stage, reason and cause. Each is in the config `rejected`, with a detail."
    evidence = """The shortest examples of each cause of a rejection, or of a suspicion that tests have several right
        answers. The config `evidence` has all rows, and `curate inspect DATASET ID` shows one."""
    tests = """Tests per problem, and the share of wrong programs that they catch. A wrong program is a reference with a
        small mistake."""
    time = (
        """CPU seconds of each reference at its slowest test, and the wall-time limit of a test calibrated from them."""
    )
    rate = """Share of a model's samples that passed every test of a problem. Problems that are never or always solved
        have no learning signal."""
    repeated = f"""{duplicates["n_exact"]:,} rows were exact duplicates of another one, and {duplicates["n_near"]:,}
        near-duplicates. Similarity is the exact Jaccard index of word 5-grams."""
    sets = "Rows with an item of these evaluation sets were removed; every hit is in the config `contamination`."
    strength = _build_test_strength(statistics["test_strength"], statistics["mutants"])
    times = list(_build_reference_time(statistics["reference_time"]))
    return [
        Chapter("funnel", "From raw rows to problems", funnel, [_build_funnel(statistics["funnel"])]),
        Chapter("rejections", "Rejected rows", rejected, [_build_rejections(statistics)]),
        Chapter("evidence", "Evidence", evidence, list(_build_evidence(statistics["evidence"]))),
        Chapter("tests", "Tests", tests, [_build_test_counts(statistics["tests"]), strength]),
        Chapter("time", "Reference time against limits", time, times),
        Chapter("solve-rate", "Solve rate", rate, list(_build_solve_rates(statistics["solve_rates"]))),
        Chapter("duplicates", "Near-duplicates", repeated, list(_build_duplicates(duplicates))),
        Chapter("contamination", "Contamination", sets, [_build_contamination(statistics["contamination"])]),
        Chapter("making", "Provenance", "", list(_build_provenance(statistics["dataset"]))),
    ]


def _build_funnel(funnel: Mapping[str, Any]) -> Section:
    rows: list[list[Any]] = []
    for source, count in funnel["sources"].items():
        left = [count["read"], *count["after"]]
        lost = [after - before or None for before, after in zip(left, left[1:], strict=False)]
        rows.append([source, count["read"], *lost, count["kept"], count["verified"]])
    columns = [[value for value in column if value is not None] for column in list(zip(*rows, strict=True))[1:]]
    total = ["all", *(sum(column) if column else None for column in columns)] if len(rows) > 1 else []
    header = ["source", "read", *funnel["stages"], "kept", "verified"]
    return Section("Rows by source and stage", [Table(header, rows, total, "steps")], wide=True)


def _build_rejections(statistics: Statistics) -> Section:
    entries, sources = statistics["rejections"], list(statistics["funnel"]["sources"])
    if not entries:
        return Section("", note="No row was rejected.")
    rows: list[list[Cell]] = [
        [e["stage"], e["reason"], e["cause"], e["n"], *(e["sources"].get(source) for source in sources)]
        for e in entries
    ]
    table = Table(["stage", "reason", "cause", "rows", *sources], rows, style="stacked")
    return Section("Rejections by cause", [table], wide=True)


def _build_evidence(entries: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    if not entries:
        yield Section("", note="No evidence was kept: no row was rejected, or an earlier version wrote this dataset.")
    # Entries with executed solutions come first.
    for entry in sorted(entries, key=lambda entry: entry["examples"][0]["test"] is None):
        n, stays = entry["n"], ", which may have several right answers and stay in the dataset"
        note = f"{n:,} row{'' if n == 1 else 's'}{stays if entry['reason'] == SUSPECT_REASON else ''}; "
        note += f"stage {entry['stage']}" + ("" if entry["examples"][0]["test"] else ", without executing solutions")
        title = f"{entry['reason']} {entry['cause']}".rstrip()
        yield Section(title, list(map(_build_example, entry["examples"])), note, wide=True)


def _build_example(example: Mapping[str, Any]) -> Exhibit:
    sides: list[Side] = []
    note = ""
    folded = {"statement": (example["statement"], False)}
    if example["test"]:
        note = f"Test {example['test']}: {example['how']}. Marked words differ from the expected output."
        texts = [("input", example["input"])] + [("expected", example["expected"])] * bool(example["expected"])
        sides = [Side([name], [(text, False)], is_output=True) for name, text in texts]
    for program in example["programs"]:
        output, expected = program["output"], example["expected"]
        parts = [(program["message"] or "(no output)", False)]
        if output is not None:
            parts = mark_differences(expected, output, exact=True)[1]
        sides.append(Side([program["name"], program["verdict"]], parts, "removed", is_output=True))
        folded[f"{program['name']}, {program['language']}"] = program["source"], True
    return Exhibit([Code(example["id"]), example["detail"]], note, sides, folded)


def _build_test_counts(tests: Mapping[str, Any] | None) -> Section:
    if not tests or not tests["n"]:
        return Section("", note="Tests per problem: no problem has tests.")
    edges = tests["edges"]
    labels = [format_range(low, high) for low, high in zip(edges, edges[1:], strict=False)]
    chart = Chart(labels, {"": tests["counts"]}, "distinct tests")
    return Section("Tests per problem", [chart], _summarize(tests, format_value))


def _build_test_strength(strength: Mapping[str, Any] | None, mutants: Mapping[str, Any] | None) -> Section:
    if not strength or not strength["n"]:
        return Section("", note="Test strength: not measured in this dataset.")
    chart = _build_histogram(
        {"": strength}, "share of wrong programs caught, 0 to 1", line=strength["least"], line_label="required minimum"
    )
    text = f"The tests of {strength['n_whole']:,} of {strength['n']:,} problems caught every one."
    if mutants and mutants["mutants"]:
        text += f" In all, {mutants['killed']:,} of {mutants['mutants'] - mutants['equivalent']:,} wrong programs were "
        text += "caught" + (f"; not caught: {format_value(mutants['survivors'])}." if mutants["survivors"] else ".")
    note = _summarize(strength, format_share)
    return Section("Test strength: share of wrong programs caught", [chart, Text(text)], note)


def _build_reference_time(time: Mapping[str, Any] | None) -> Iterator[Section]:
    if not time or not time["slowest"]["n"]:
        yield Section("", note="Not measured: this dataset has no CPU times of references.")
        return
    series = {"reference, slowest test": time["slowest"], "limit": time["limit"]}
    note = (
        f"reference: {_summarize(time['slowest'], format_seconds)}. limit: {_summarize(time['limit'], format_seconds)}"
    )
    chart = _build_histogram(series, "seconds: CPU time of the reference, wall time of the limit")
    yield Section("CPU seconds of the reference at its slowest test, and limits", [chart], note)
    rows: list[list[Cell]] = [
        [Code(row["id"]), Seconds(row["slowest_cpu_seconds"]), Seconds(row["time_limit_seconds"]), Share(row["share"])]
        for row in time["tightest"]
    ]
    table = Table(["problem", "reference CPU s", "limit s", "share of limit"], rows)
    note = "On a slower machine, right programs could exceed these limits."
    yield Section("Closest to their time limit", [table], note)


def _build_solve_rates(models: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    if not models:
        yield Section("", note="Not measured. Type: curate difficulty DATASET --model MODEL")
    yield from map(_build_solve_rate, models)


def _build_solve_rate(rates: Mapping[str, Any]) -> Section:
    n, counts = rates["steps"], rates["counts"]
    shares = [step / n for step in range(n + 1)]
    note = f"mean {format_share(rates['mean'])}; never solved {rates['never']:,}, always {rates['always']:,} of "
    note += f"{rates['n']:,}" + (f"; no sample judged for {rates['unknown']:,}" if rates["unknown"] else "")
    band: tuple[int, int] | None = None
    band_label = ""
    if rates["band"]:
        low, high = rates["band"]
        inside = [step for step, share in enumerate(shares) if low <= share <= high]
        band = (inside[0], inside[-1]) if inside else None
        band_label = f"selected: {low:g} to {high:g}"
        note += f"; {rates['in_band']:,} in the selected band, {low:g} to {high:g}"
    labels = [f"{share:.3g}" for share in shares]
    chart = Chart(labels, {"": counts}, "share of right samples, 0 to 1", band=band, band_label=band_label)
    return Section(f"Solve rate of {rates['model']}", [chart], note)


def _build_duplicates(duplicates: Mapping[str, Any]) -> Iterator[Section]:
    if not duplicates["n_exact"] + duplicates["n_near"]:
        yield Section("", note="No row was removed as a duplicate of another one.")
        return
    if duplicates["n_near"]:
        chart = _build_histogram(
            {"": duplicates["similarity"]},
            "Jaccard similarity, 0 to 1",
            "rows removed",
            line=duplicates["threshold"],
            line_label="threshold",
        )
        note = _summarize(duplicates["similarity"], format_value, "rows removed")
        yield Section("Similarity of near-duplicates to the row kept", [chart], note)
    else:
        yield Section("", note="Similarity: only exact duplicates were removed.")
    sources = duplicates["sources"]
    if sources:
        rows: list[list[Cell]] = [
            [name, *row] for name, row in zip(sources, duplicates["removed_by_kept"], strict=True)
        ]
        table = Table(["", *sources], rows, style="shaded")
        yield Section("Duplicates by source: removed (down), kept (across)", [table])
    if duplicates["least_similar"]:
        note = f"{len(duplicates['least_similar'])} removed rows least similar to the row kept; words that only one "
        pairs = list(map(_build_pair, duplicates["least_similar"]))
        yield Section("The least similar pairs", pairs, f"{note}of the two has are marked", wide=True)
    elif duplicates["n_near"]:
        yield Section("", note="The least similar pairs: unknown, because this dataset lacks their statements.")


def _build_pair(pair: Mapping[str, Any]) -> Exhibit:
    members = {"removed": pair["removed"], "kept": pair["kept"]}
    parts = mark_differences(*(member["statement"] for member in members.values()))
    sides = [
        Side([kind, Code(member["id"]), member["title"]], marked, kind)
        for (kind, member), marked in zip(members.items(), parts, strict=True)
    ]
    ids = [Code(member["id"]) for member in members.values()]
    return Exhibit([f"{pair['jaccard']:.3f}", ids[0], "removed for", ids[1]], sides=sides)


def _build_contamination(sets: Mapping[str, Any]) -> Section:
    if not sets:
        command = "curate decontaminate DATASET --against NAME=PATH --out DIR"
        return Section("", note=f"Not compared with any evaluation set. Type: {command}")
    blocks: list[Table | Text] = [tabulate_set_counts(sets)]
    for name, found in sets.items():
        if found["warning"]:
            blocks.append(Text(f"{name}: {found['warning']}", "warning"))
        for title, hits in (
            (f"{name}: removed rows with the smallest share of matching words", found["removed_least"]),
            (f"{name}: kept rows with the largest share of matching words, to review", found["kept_most"]),
        ):
            rows: list[list[Cell]] = [
                [Code(hit["id"]), Code(hit["item"]), Share(hit["score"]), hit["span"]] for hit in hits
            ]
            if rows:
                blocks.append(Table(["row", "item", "share of the item", "words in common"], rows, folded=title))
    return Section("Contamination", blocks, wide=True)


def _build_provenance(dataset: Mapping[str, Any]) -> Iterator[Section]:
    options = [(name, format_value(value)) for name, value in dataset["options"].items()]
    yield Section("Options", [Table((), [("content hash", Code(dataset["content_hash"])), *options])])
    seconds = [(name, Seconds(value)) for name, value in dataset["seconds"].items()]
    if dataset["executed_cpu_seconds"] is not None:
        seconds.append(("CPU time of programs", Seconds(dataset["executed_cpu_seconds"])))
    yield Section("Wall time of each step", [Table((), seconds)])
    rows: list[Sequence[Cell]] = []
    for source, files in dataset["inputs"].items():
        rows += [(source, file["name"], Code(file["sha256"])) for file in files[:_MAX_FILES]]
        if len(files) > _MAX_FILES:
            rows.append((source, f"and {len(files) - _MAX_FILES:,} more, in manifest.json", ""))
    yield Section("Inputs", [Table(["source", "file", "SHA-256"], rows)], wide=True)


def _summarize(summary: Mapping[str, Any], format_number: Callable[[float], str], unit: str = "problems") -> str:
    """Format the median, minimum, maximum and number of values."""
    if not summary["n"]:
        return f"unknown for all {summary['unknown']:,} {unit}"
    unknown = f", unknown for {summary['unknown']:,}" if summary["unknown"] else ""
    median, minimum, maximum = (format_number(summary[name]) for name in ("median", "min", "max"))
    return f"median {median}, from {minimum} to {maximum}; {summary['n']:,} {unit}{unknown}"


def _build_histogram(
    series: Mapping[str, Mapping[str, Any]],
    x_label: str,
    y_label: str = "problems",
    *,
    line: float | None = None,
    line_label: str = "",
) -> Chart:
    """Return a chart of histograms with the same edges. Bars have equal widths, even if bins have not."""
    edges = next(iter(series.values()))["edges"]
    labels = [
        f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
        for low, high in zip(edges, edges[1:], strict=False)
    ]
    return Chart(
        labels,
        {name: histogram["counts"] for name, histogram in series.items()},
        x_label,
        y_label,
        ticks=["more" if edge is None else format_value(edge) for edge in edges],
        line=None if line is None else locate_on_axis(line, edges),
        line_label=line_label,
    )


def locate_on_axis(value: float, edges: Sequence[float | None]) -> float | None:
    """Return the position of a value on an axis where adjacent edges are 1 apart; None if it is outside."""
    for index, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
        if low is not None and high is not None and low <= value <= high:
            return index + (value - low) / (high - low)
    return None


def format_range(low: float, high: float | None) -> str:
    """Format the integers from `low` to below `high`; without a limit if `high` is None."""
    if high is None:
        return f"{format_value(low)}+"
    return format_value(low) if high - low <= 1 else f"{format_value(low)}–{format_value(high - 1)}"
