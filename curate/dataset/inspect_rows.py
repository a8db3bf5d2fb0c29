"""What `curate inspect` prints: the first rows of a dataset, everything about one row, or one test in full.

The evidence about a row has the expected and the actual outputs side by side.
"""

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any

from curate.dataset.dataset import Dataset
from curate.dataset.evidence import EVIDENCE, PROGRAM_COLUMNS, SUSPECT_REASON, judging_description, program_names
from curate.errors import CurateError
from curate.reading.values import shorten
from curate.text.printable import escape_unprintable, format_table, one_line
from sandbox import Case, Suite

LINES = 20  # lines of outputs that are shown
_WIDTH = 100  # characters of all columns together
_TEST_CHARACTERS = 60  # characters of an input or output in the list of tests


def evidence_lines(row: dict[str, Any]) -> Iterator[str]:
    """Yield the test, the outputs side by side and the programs of a row of the table `evidence`, if it has a test."""
    if row["test"] is None:
        return
    yield f"\nTest {row['test']}: {judging_description(row)}\n"
    yield indent(row["input"])
    names = program_names(row)
    answers = {name: text for name, text in zip(names, row["outputs"], strict=True) if text is not None}
    if row["expected"] or answers:
        yield "\nExpected and actual output; ! marks lines that differ\n" if answers else "\nExpected output\n"
        yield from _side_by_side({"expected": row["expected"], **answers})
    for name, language, verdict, message, output, source in zip(
        names, *(row[column] for column in PROGRAM_COLUMNS), strict=True
    ):
        yield f"\n{name.capitalize()}, {language}: {verdict}\n"
        if output is None and message:  # otherwise the message is the beginning of the output
            yield indent(message, "  | ") + "\n"
        yield indent(source, "    ")


def indent(text: str, by: str = "  ") -> str:
    """Return a text, safe to print, with its lines indented."""
    return "\n".join(f"{by}{line}".rstrip() for line in escape_unprintable(text.rstrip("\n")).split("\n"))


def _side_by_side(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts as columns, each under its name."""
    rows = list(zip_longest(*(text.rstrip("\n").split("\n") for text in texts.values()), fillvalue=""))
    width = max(*map(len, texts), _WIDTH // len(texts))
    yield "    " + "  ".join(name.ljust(width) for name in texts).rstrip()
    for row in rows[:LINES]:
        mark = "!" if len({cell.strip() for cell in row}) > 1 else " "
        yield f"  {mark} {'  '.join(one_line(cell, width).ljust(width) for cell in row)}".rstrip()
    if len(rows) > LINES:
        yield f"    ... and {len(rows) - LINES} more lines"


SHOWN_TESTS = 8
_LOOKED_AT = 20_000  # number of ids that are searched for names similar to an unknown id
_REQUIRED_COLUMNS = frozenset(("id", "title", "source", "statement", "tests", "verified"))


def list_rows(dataset: Dataset, limit: int) -> Iterator[str]:
    """Yield the first rows of a dataset, one line each. Raises CurateError if curate did not build it."""
    names = ("id", "n_tests", "verified", "test_strength", "difficulty", "title")
    _of_our_make(dataset)
    present = [name for name in names if name in dataset.columns("data")]
    rows = dataset.rows("data", present)
    first = [[_word(row[name]) for name in present] for row in islice(rows, limit)]
    yield from format_table(present, first)
    manifest = dataset.manifest
    if manifest.n_kept > len(first):
        yield f"... and {manifest.n_kept - len(first)} more"
    yield f"\n{manifest.n_kept} problems; {manifest.n_rejected} rows fell out (see `curate stats`)"


def show_row(dataset: Dataset, id: str) -> Iterator[str]:
    """Yield everything about the row with this id, whether it was kept or not. Raises CurateError if there is none."""
    _of_our_make(dataset)
    kept = list(dataset.find("data", id))
    rejected = list(dataset.find("rejected", id))
    if not kept and not rejected:
        raise CurateError(_unknown(dataset, id))
    for row in kept:
        yield from _problem(dataset, row)
    for row in rejected:
        yield from _rejected(dataset, row)


def show_test(dataset: Dataset, id: str, number: int) -> Iterator[str]:
    """Yield one test of a problem in full. Tests are numbered from 1. Raises CurateError if there is no such test."""
    _of_our_make(dataset)
    row = next(dataset.find("data", id), None)
    if row is None:
        if next(dataset.find("rejected", id), None):
            raise CurateError(
                f"{id} was rejected; the tests of rejected rows are not in the dataset. "
                f"Without --test, the command shows the one on which its solutions failed, if they did."
            )
        raise CurateError(_unknown(dataset, id))
    cases = _suite(dataset, row).cases
    if not 1 <= number <= len(cases):
        raise CurateError(f"{id} has {len(cases)} tests. Give --test a number from 1 to {len(cases)}.")
    yield f"{id}, test {number} of {len(cases)}"
    for name, text in (("input", cases[number - 1].input), ("expected", cases[number - 1].expected)):
        yield f"\n{name} ({len(text)} characters)\n"
        yield escape_unprintable(text)


def _problem(dataset: Dataset, row: dict[str, Any]) -> Iterator[str]:
    suite = _suite(dataset, row)
    yield f"{escape_unprintable(row['id'])}  {one_line(row['title'], 200)}".rstrip()
    yield "\nStatement\n"
    yield indent(row["statement"].strip())
    if row.get("starter_code"):
        yield "\nStarter code\n"
        yield indent(row["starter_code"].strip("\n"))
    yield f"\nTests: {len(suite.cases)}, {_how_judged(suite)}\n"
    yield from _tests(row, suite)
    yield "\nReference\n"
    yield from _reference(row)
    for evidence in dataset.find(EVIDENCE, row["id"]):
        if evidence["reason"] == SUSPECT_REASON:
            yield "\nWhy there may be several correct answers"
            yield from evidence_lines(evidence)
    yield "\nTest strength\n"
    yield from _strength(row)
    yield "\nSolve rate\n"
    yield from _solve_rates(dataset, row["id"])
    yield "\nWhere it comes from\n"
    yield from _provenance(dataset, row)
    yield from _others(dataset, row["id"])


def _suite(dataset: Dataset, row: dict[str, Any]) -> Suite:
    try:
        return Suite.from_json(row["tests"])
    except (ValueError, KeyError, TypeError) as error:
        raise CurateError(f"{dataset.path}: the tests of {row['id']} cannot be read ({shorten(error)}).") from error


def _how_judged(suite: Suite) -> str:
    called = f"calls of {suite.entry_point}" if suite.entry_point else "standard input and output"
    if suite.assertions is not None:
        called = f"Python code that uses {', '.join(suite.assertions.names)}"
    limits = f"limits {suite.limits.wall_seconds:g} s and {suite.limits.memory_mb:g} MB"
    return f"{escape_unprintable(called)}, checker {suite.checker}, {limits}"


def _tests(row: dict[str, Any], suite: Suite) -> Iterator[str]:
    strongest = row.get("strongest_tests") or []
    rows = [
        [number, *_test(case), ", ".join(_marks(number, row, strongest))]
        for number, case in enumerate(suite.cases[:SHOWN_TESTS], start=1)
    ]
    yield from format_table(["", "input", "expected", ""], rows, indent="  ")
    if len(suite.cases) > SHOWN_TESTS:
        yield f"  ... and {len(suite.cases) - SHOWN_TESTS} more; --test N shows one in full"


def _test(case: Case) -> tuple[str, str]:
    return one_line(case.input.rstrip("\n"), _TEST_CHARACTERS), one_line(case.expected.rstrip("\n"), _TEST_CHARACTERS)


def _marks(number: int, row: dict[str, Any], strongest: list[int]) -> Iterator[str]:
    if number <= row.get("n_public_tests", 0):
        yield "in the statement"
    if number - 1 in strongest:
        yield f"number {strongest.index(number - 1) + 1} of the strongest"


def _reference(row: dict[str, Any]) -> Iterator[str]:
    if not row["verified"] or row.get("reference") is None:
        yield "  none was verified"
        return
    yield f"  {row['reference_language']}, passed every test twice; {_count(row['n_tries'], 'solution')} executed"
    if row.get("n_references"):
        yield f"  {_count(row['n_references'], 'solution')} passed every test"
    if row.get("multi_answer_suspect"):
        yield "  correct solutions disagree on a test: there may be several correct answers"
    if row.get("cpu_seconds") is not None:
        yield f"  {row['cpu_seconds']:.3g} CPU seconds over all tests"
    if row.get("slowest_cpu_seconds") is not None:
        limit = row.get("time_limit_seconds")
        yield f"  {row['slowest_cpu_seconds']:.3g} of them at its slowest" + (f"; limit {limit:.3g} s" if limit else "")
    yield ""
    yield indent(row["reference"].strip("\n"), "    ")


def _strength(row: dict[str, Any]) -> Iterator[str]:
    if row.get("test_strength") is None:
        yield "  not measured"
        return
    wrong = row["n_mutants"] - row["n_mutants_equivalent"]
    yield f"  {row['test_strength']:.3g}: {row['n_mutants_killed']} of {wrong} wrong programs caught"
    places = ", ".join(str(place + 1) for place in row["strongest_tests"])
    yield f"  those that catch most are tests {places}" if places else "  no test catches any"


def _solve_rates(dataset: Dataset, id: str) -> Iterator[str]:
    rates = list(dataset.find("difficulty", id))
    if not rates:
        yield "  not measured"
        return
    names = [
        name
        for name in ("model", "n_correct", "n", "n_truncated", "pass_at_1", "k", "pass_at_k", "temperature")
        if name in rates[0]
    ]
    yield from format_table(names, [[_word(row[name]) for name in names] for row in rates], indent="  ")


def _provenance(dataset: Dataset, row: dict[str, Any]) -> Iterator[str]:
    build = dataset.manifest.build
    place = build.locations.get(row["source"]) if build else None
    facts = {
        "source": row["source"],
        "location": "@".join(filter(None, (place.location, place.revision))) if place else "",
        "platform": row.get("platform"),
        "url": row.get("url"),
        "date": row.get("date"),
        "difficulty": row.get("difficulty"),
        "tags": ", ".join(row.get("tags") or ()),
        "licence": row.get("licence"),
    }
    yield from (f"  {name:<11} {one_line(str(value), 300)}" for name, value in facts.items() if value)


def _others(dataset: Dataset, id: str) -> Iterator[str]:
    """Yield the rows that were removed in favour of this one, and its matches in evaluation sets that await review."""
    names = ("id", "reason", "detail")
    if dataset.columns("rejected").issuperset(names):
        mine = [row for row in dataset.rows("rejected", names) if f" kept={id} jaccard=" in row["detail"]]
        if mine:
            yield "\nDuplicates removed for it\n"
            yield from (f"  {one_line(row['id'], 100)}  {row['detail'].rpartition(' ')[2]}" for row in mine)
    hits = list(dataset.find("contamination", id))
    if hits:
        yield "\nIn common with evaluation sets\n"
        rows = [[hit["set"], hit["item"], hit["rule"], hit["score"], hit["verdict"], hit["span"]] for hit in hits]
        yield from format_table(["set", "item", "rule", "score", "verdict", "words in common"], rows, indent="  ")


def _rejected(dataset: Dataset, row: dict[str, Any]) -> Iterator[str]:
    yield f"{escape_unprintable(row['id'])} fell out"
    yield f"  stage   {row['stage']}"
    yield f"  reason  {row['reason']}"
    if row.get("cause"):
        yield f"  cause   {row['cause']}"
    if row["detail"]:
        yield f"  detail  {one_line(row['detail'], 1000)}"
    hits = list(dataset.find("contamination", row["id"]))
    if hits:
        rows = [[hit["set"], hit["item"], hit["rule"], hit["score"], hit["span"]] for hit in hits]
        yield ""
        yield from format_table(["set", "item", "rule", "score", "words in common"], rows, indent="  ")
    for evidence in dataset.find(EVIDENCE, row["id"]):
        if (evidence["stage"], evidence["reason"]) == (row["stage"], row["reason"]):
            yield "\nStatement\n"
            yield indent(evidence["statement"].strip())
            yield from evidence_lines(evidence)


def _of_our_make(dataset: Dataset) -> None:
    missing = _REQUIRED_COLUMNS - dataset.columns("data")
    if missing:
        raise CurateError(
            f"{dataset.path / 'data'}: its rows have no {', '.join(sorted(missing))}, so they are not problems as "
            "curate writes them. Give the folder of `curate build-dataset`."
        )


def _unknown(dataset: Dataset, id: str) -> str:
    known = (row["id"] for table in ("data", "rejected") for row in dataset.rows(table, ("id",)))
    first = [*islice(known, _LOOKED_AT)]
    close = [other for other in first if id.lower() in other.lower()][:3] or difflib.get_close_matches(id, first)
    hint = f"Did you mean {', '.join(close)}?" if close else f"`curate inspect {dataset.path}` lists some."
    return f"{dataset.path}: no row {id}, neither kept nor rejected. {hint}"


def _word(value: Any) -> Any:
    return ("yes" if value else "no") if isinstance(value, bool) else value


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"
