"""The evidence about one row as lines for a terminal, with the expected and the actual outputs side by side."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from curate.dataset.evidence import PROGRAM_COLUMNS, judging_description, program_names
from curate.text.printable import escape_unprintable, one_line

LINES = 20  # lines of outputs that are shown
_WIDTH = 100  # characters of all columns together


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
