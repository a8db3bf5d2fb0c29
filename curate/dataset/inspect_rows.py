"""The output of `curate inspect`: the first rows of a dataset, everything about one row, or one test in full."""

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any

from curate.dataset.dataset import Dataset
from curate.dataset.evidence import EVIDENCE, PROGRAM_COLUMNS, SUSPECT_REASON, describe_test_kind, name_programs
from curate.errors import CurateError
from curate.reading.values import shorten
from curate.text.document import Block, Cell, Section, Table, Text, render_terminal
from curate.text.printable import escape_unprintable, format_one_line, format_table
from sandbox import Suite

_MAX_LINES = 20  # lines of outputs shown side by side
_WIDTH = 100  # characters; total width of these outputs
_TEST_CHARACTERS = 60  # maximum width of an input or output in the list of tests
_MAX_TESTS = 8
_MAX_SEARCHED_IDS = 20_000  # ids to search for one similar to an unknown id
_REQUIRED_COLUMNS = frozenset(("id", "title", "source", "statement", "tests", "verified"))
_RATE_COLUMNS = ("model", "n_correct", "n", "n_truncated", "pass_at_1", "k", "pass_at_k", "temperature")


def list_rows(dataset: Dataset, limit: int) -> Iterator[str]:
    """Yield the first rows of a dataset, one line each. Raises CurateError if curate did not build it."""
    _require_problems(dataset)
    columns = dataset.read_columns("data")
    names = ("id", "n_tests", "verified", "test_strength", "difficulty", "title")
    present = [name for name in names if name in columns]
    rows = islice(dataset.iter_rows("data", (*present, "expected_answer")), limit)
    rows_with_unknowns = (row | {"n_tests": None} if row["expected_answer"] else row for row in rows)
    first = [[_format_value(row[name]) for name in present] for row in rows_with_unknowns]
    yield from format_table(present, first)
    manifest = dataset.manifest
    if manifest.n_kept > len(first):
        yield f"... and {manifest.n_kept - len(first)} more"
    yield f"\n{manifest.n_kept} problems; {manifest.n_rejected} rows were rejected (see `curate stats`)"


def show_row(dataset: Dataset, id: str) -> Iterator[str]:
    """Yield everything about the row with this id, kept or rejected. Raises CurateError if there is none."""
    _require_problems(dataset)
    kept, rejected = list(dataset.find("data", id)), list(dataset.find("rejected", id))
    if not kept and not rejected:
        raise CurateError(_describe_unknown_id(dataset, id))
    for row in kept:
        yield f"{escape_unprintable(row['id'])}  {format_one_line(row['title'], 200)}".rstrip()
        yield from render_terminal(_describe_kept_row(dataset, row))
    for row in rejected:
        yield f"{escape_unprintable(row['id'])} was rejected"
        facts = ((name, row[name]) for name in ("stage", "reason", "cause", "detail") if row.get(name))
        yield from (f"  {name:<7} {format_one_line(value, 1000)}" for name, value in facts)
        yield from render_terminal(_describe_rejected_row(dataset, row))


def show_test(dataset: Dataset, id: str, number: int) -> Iterator[str]:
    """Yield one test of a problem in full. number: from 1. Raises CurateError if the test does not exist."""
    _require_problems(dataset)
    row = next(dataset.find("data", id), None)
    if row is None:
        if next(dataset.find("rejected", id), None):
            raise CurateError(
                f"{id} was rejected, so its tests are not in the dataset. Without --test, the command shows a test "
                "that its solutions failed, if any."
            )
        raise CurateError(_describe_unknown_id(dataset, id))
    if row.get("expected_answer"):
        raise CurateError(f"{id} is a math problem and has no tests. Omit --test to see its answer.")
    cases = _parse_suite(dataset, row).cases
    if not 1 <= number <= len(cases):
        raise CurateError(f"{id} has {len(cases)} tests. Pass --test with a number from 1 to {len(cases)}.")
    yield f"{id}, test {number} of {len(cases)}"
    for name, text in (("input", cases[number - 1].input), ("expected", cases[number - 1].expected)):
        yield f"\n{name} ({len(text)} characters)\n"
        yield escape_unprintable(text)


def _describe_kept_row(dataset: Dataset, row: Mapping[str, Any]) -> Iterator[Section]:
    yield Section("Statement", [Text(row["statement"].strip())])
    if row.get("starter_code"):
        yield Section("Starter code", [Text(row["starter_code"].strip("\n"))])
    if answer := row.get("expected_answer"):
        judged = "math-verify can parse it" if row["verified"] else "not verified"
        yield Section(f"Expected answer, {judged}", [Text(answer)])
    else:
        yield _describe_tests(row, _parse_suite(dataset, row))
        yield Section("Reference", list(_describe_reference(row)))
    for evidence in dataset.find(EVIDENCE, row["id"]):
        if evidence["reason"] == SUSPECT_REASON:
            yield Section("Test with possibly several correct outputs", [Text("Correct solutions disagree on it.")])
            yield from _describe_evidence(evidence)
    if not row.get("expected_answer"):
        yield Section("Test strength", [Text(_describe_strength(row))])
    rates = list(dataset.find("difficulty", row["id"]))
    names = [name for name in _RATE_COLUMNS if rates and name in rates[0]]
    table = Table(names, [[_format_value(rate[name]) for name in names] for rate in rates])
    yield Section("Solve rate", [table if rates else Text("not measured")])
    yield Section("Origin", [_describe_origin(dataset, row)])
    removed_names = ("id", "reason", "detail")
    if dataset.read_columns("rejected").issuperset(removed_names):
        rejected = dataset.iter_rows("rejected", removed_names)
        mine = [other for other in rejected if f" kept={row['id']} jaccard=" in other["detail"]]
        if mine:
            pairs = [(other["id"], other["detail"].rpartition(" ")[2]) for other in mine]
            yield Section("Removed duplicates of this problem", [Table((), pairs)])
    yield from _describe_contamination(dataset, row["id"])


def _describe_rejected_row(dataset: Dataset, row: Mapping[str, Any]) -> Iterator[Section]:
    yield from _describe_contamination(dataset, row["id"])
    for evidence in dataset.find(EVIDENCE, row["id"]):
        if (evidence["stage"], evidence["reason"]) == (row["stage"], row["reason"]):
            yield Section("Statement", [Text(evidence["statement"].strip())])
            yield from _describe_evidence(evidence)


def _describe_tests(row: Mapping[str, Any], suite: Suite) -> Section:
    called = f"calls of {suite.entry_point}" if suite.entry_point else "standard input and output"
    if suite.assertions is not None:
        called = f"Python code that uses {', '.join(suite.assertions.names)}"
    limits = f"limits {suite.limits.wall_seconds:g} s and {suite.limits.memory_mb:g} MB"
    strongest = row.get("strongest_tests") or []
    rows: list[list[Cell]] = []
    for number, case in enumerate(suite.cases[:_MAX_TESTS], start=1):
        marks = ["in the statement"] * (number <= row.get("n_public_tests", 0))
        if number - 1 in strongest:
            marks.append(f"number {strongest.index(number - 1) + 1} of the strongest")
        texts = (format_one_line(text.rstrip("\n"), _TEST_CHARACTERS) for text in (case.input, case.expected))
        rows.append([number, *texts, ", ".join(marks)])
    blocks: list[Block] = [Table(["", "input", "expected", ""], rows)]
    if len(suite.cases) > _MAX_TESTS:
        blocks.append(Text(f"... and {len(suite.cases) - _MAX_TESTS} more; --test N shows one in full"))
    return Section(f"Tests: {len(suite.cases)}, {called}, checker {suite.checker}, {limits}", blocks)


def _describe_reference(row: Mapping[str, Any]) -> Iterator[Text]:
    if not row["verified"] or row.get("reference") is None:
        yield Text("none was verified")
        return
    yield Text(f"{row['reference_language']}, passed every test twice; {_count_solutions(row['n_tries'])} executed")
    if row.get("n_references"):
        yield Text(f"{_count_solutions(row['n_references'])} passed every test")
    if row.get("multi_answer_suspect"):
        yield Text("correct solutions disagree on a test, so it may have several correct outputs")
    if row.get("cpu_seconds") is not None:
        yield Text(f"{row['cpu_seconds']:.3g} CPU seconds over all tests")
    if row.get("slowest_cpu_seconds") is not None:
        limit = row.get("time_limit_seconds")
        limit_text = f"; limit {limit:.3g} s" if limit else ""
        yield Text(f"{row['slowest_cpu_seconds']:.3g} CPU seconds on the slowest test{limit_text}")
    yield Text("\n" + row["reference"].strip("\n"), "code")


def _describe_strength(row: Mapping[str, Any]) -> str:
    if row.get("test_strength") is None:
        return "not measured"
    wrong = row["n_mutants"] - row["n_mutants_equivalent"]
    numbers = ", ".join(str(index + 1) for index in row["strongest_tests"])
    strongest = f"the strongest tests are {numbers}" if numbers else "no test catches any"
    return f"{row['test_strength']:.3g}: {row['n_mutants_killed']} of {wrong} wrong programs caught\n{strongest}"


def _describe_origin(dataset: Dataset, row: Mapping[str, Any]) -> Table:
    build = dataset.manifest.build
    origin = build.locations.get(row["source"]) if build else None
    facts = {
        "source": row["source"],
        "location": "@".join(filter(None, (origin.location, origin.revision))) if origin else "",
        **{name: row.get(name) for name in ("platform", "url", "date", "difficulty")},
        "tags": ", ".join(row.get("tags") or ()),
        "licence": row.get("licence"),
    }
    return Table((), [(f"{name:<10}", value) for name, value in facts.items() if value])


def _describe_contamination(dataset: Dataset, id: str) -> Iterator[Section]:
    hits = list(dataset.find("contamination", id))
    names = ("set", "item", "rule", "score", "verdict", "span")
    if hits:
        rows = [[hit[name] for name in names] for hit in hits]
        yield Section("In common with evaluation sets", [Table([*names[:-1], "words in common"], rows)])


def _describe_evidence(row: Mapping[str, Any]) -> Iterator[Section]:
    """Yield the test, the outputs and the programs of a row of the table `evidence`; nothing if it has no test."""
    if row["test"] is None:
        return
    yield Section(f"Test {row['test']}: {describe_test_kind(dict(row))}", [Text(row["input"])])
    names = name_programs(dict(row))
    answers = {name: text for name, text in zip(names, row["outputs"], strict=True) if text is not None}
    if row["expected"] or answers:
        title = "Expected and actual output; ! marks lines that differ" if answers else "Expected output"
        yield Section(title, [Text("\n".join(_align_columns({"expected": row["expected"], **answers})))])
    for name, language, verdict, message, output, source in zip(
        names, *(row[column] for column in PROGRAM_COLUMNS), strict=True
    ):
        # Beside an output, the message would only repeat the output's beginning.
        messages = [Text(f"{message.rstrip()}\n", "message")] if output is None and message else []
        yield Section(f"{name.capitalize()}, {language}: {verdict}", [*messages, Text(source, "code")])


def _align_columns(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of texts side by side, each text in a column under its name."""
    rows = list(zip_longest(*(text.rstrip("\n").split("\n") for text in texts.values()), fillvalue=""))
    width = max(*map(len, texts), _WIDTH // len(texts))
    yield "  " + "  ".join(name.ljust(width) for name in texts)
    for row in rows[:_MAX_LINES]:
        mark = "!" if len({cell.strip() for cell in row}) > 1 else " "
        yield f"{mark} {'  '.join(format_one_line(cell, width).ljust(width) for cell in row)}"
    if len(rows) > _MAX_LINES:
        yield f"  ... and {len(rows) - _MAX_LINES} more lines"


def _parse_suite(dataset: Dataset, row: Mapping[str, Any]) -> Suite:
    try:
        return Suite.from_json(row["tests"])
    except (ValueError, KeyError, TypeError) as error:
        raise CurateError(
            f"{dataset.path}: the tests of {row['id']} cannot be read ({shorten(error)}). Build it again."
        ) from error


def _require_problems(dataset: Dataset) -> None:
    missing = _REQUIRED_COLUMNS - dataset.read_columns("data")
    if missing:
        raise CurateError(
            f"{dataset.path / 'data'}: rows have no {', '.join(sorted(missing))}, so curate did not build this "
            "dataset. Pass a folder that `curate build-dataset` wrote."
        )


def _describe_unknown_id(dataset: Dataset, id: str) -> str:
    known = (row["id"] for table in ("data", "rejected") for row in dataset.iter_rows(table, ("id",)))
    first = [*islice(known, _MAX_SEARCHED_IDS)]
    close = [other for other in first if id.lower() in other.lower()][:3] or difflib.get_close_matches(id, first)
    hint = f"Did you mean {', '.join(close)}?" if close else f"`curate inspect {dataset.path}` lists some."
    return f"{dataset.path}: no row {id}, neither kept nor rejected. {hint}"


def _format_value(value: Any) -> Any:
    return ("yes" if value else "no") if isinstance(value, bool) else value


def _count_solutions(n: int) -> str:
    return f"{n} solution{'' if n == 1 else 's'}"
