"""Training rows that hold what a model will be tested with: which, of which set, by which rule, and where.

A row is removed if it

    same_key     has the key or address of an evaluation item
    in_window    is of a source that publishes the set, and of a contest in its window
    same_text    is an item, word for word
    whole_item   holds an item, or its prose, in one piece where that is short or mostly boilerplate
    contained    holds at least half of the runs of eight words of an item, or of its prose, boilerplate aside

A row that was kept instead of a duplicate is known by the duplicate's keys and dates, too (rows.py). One that holds a
fifth to a half is left for somebody to look at. Every hit is kept with the item, the share and the words that both
have, so that nobody needs to believe it.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from curate.decontamination.evaluation_sets import Evaluation
from curate.decontamination.overlap import Overlap, Passage, Passages
from curate.decontamination.rows import Row, Rows
from curate.problem import Rejection
from curate.reading.values import short, storable
from curate.text.ngrams import located

REMOVED_FROM, REVIEWED_FROM = 0.5, 0.2
# When more of a training set than this is found in one evaluation set, a mistake is likelier than a find.
PLAUSIBLE_RATE = 0.05
SPAN_CHARACTERS = 500
RULES = ("same_key", "in_window", "same_text", "whole_item", "contained")

HIT_COLUMNS = {
    "row": ("int32", "position among the rows compared, from zero"),
    "id": ("string", "id there, or file and place"),
    "source": ("string", "its source"),
    "set": ("string", "evaluation set, by the name it was given"),
    "item": ("string", "id of the item in it, or file and position; for in_window the window"),
    "rule": ("string", ", ".join(RULES)),
    "score": ("float64", "share of the item's runs of eight words that the row holds; 1 for the other rules"),
    "span": ("string", "the longest stretch of words that both have, as the row words it; or the key, or the date"),
    "verdict": ("string", "removed or review"),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """A row and an item that have something in common; the fields are HIT_COLUMNS."""

    row: int
    id: str
    source: str
    set: str
    item: str
    rule: str
    score: float
    span: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Findings:
    """hits: in the order of the rows. rejections: of the rows to remove, by position. counts: for the manifest, what
    each set was read from and how many rows are in it."""

    hits: list[Hit]
    rejections: dict[int, Rejection]
    counts: dict[str, Any]


def decontaminate(rows: Rows, evaluations: Sequence[Evaluation]) -> Findings:
    """Find the rows that hold something of the evaluation sets. The rows are read twice, the second time only those
    in which something was found, and not at all if there is nothing to compare with; positions count from zero."""
    if not evaluations:
        return Findings([], {}, {})
    items = [(number, item) for number, evaluation in enumerate(evaluations) for item in evaluation.items]
    with_key: dict[str, list[int]] = defaultdict(list)
    for number, (_, item) in enumerate(items):
        for key in item.keys:
            with_key[key].append(number)
    passages = [Passage(text, number, of) for number, (of, item) in enumerate(items) for text in item.texts]
    index = Passages(passages)
    found: dict[int, list[_Trace]] = defaultdict(list)
    n_rows = 0

    def texts() -> Iterator[str]:
        nonlocal n_rows
        for position, row in rows(None):
            n_rows += 1
            for key in sorted(row.keys):
                for of, item in map(items.__getitem__, with_key.get(key, ())):
                    found[position].append(_Trace(evaluations[of].name, item.id, "same_key", 1.0, key))
            for evaluation in evaluations:
                if evaluation.window and (day := evaluation.window.first_of(row.contests)):
                    found[position].append(_Trace(evaluation.name, str(evaluation.window), "in_window", 1.0, day))
            yield row.text

    index.see(texts())
    for overlap in index.overlaps(REVIEWED_FROM):
        of, item = items[passages[overlap.passage].item]
        found[overlap.text].append(_Trace(evaluations[of].name, item.id, overlap.rule, overlap.share, overlap))
    hits = [hit for position, row in rows(found) for hit in _hits(position, row, found[position], index)]
    counts = {
        evaluation.name: _counts([hit for hit in hits if hit.set == evaluation.name], evaluation, n_rows)
        for evaluation in evaluations
    }
    return Findings(hits, _rejections(hits), counts)


@dataclass(frozen=True, slots=True)
class _Trace:
    """A hit whose row has not been read again: what it has in common is known, or where to look for it."""

    set: str
    item: str
    rule: str
    score: float
    common: str | Overlap

    def strength(self) -> tuple[int, float]:
        """The smallest is strongest."""
        return RULES.index(self.rule), -self.score


def _hits(position: int, row: Row, traces: Sequence[_Trace], index: Passages) -> Iterator[Hit]:
    """One for each item, by the strongest rule that holds; the strongest first."""
    done = set()
    for trace in sorted(traces, key=lambda trace: (*trace.strength(), trace.set, trace.item)):
        if (trace.set, trace.item) in done:
            continue
        span = trace.common if isinstance(trace.common, str) else _span(row.text, trace.common, index)
        if span is None:
            continue
        done.add((trace.set, trace.item))
        verdict = "removed" if trace.score >= REMOVED_FROM else "review"
        score = round(trace.score, 4)
        id, source, item, span = map(storable, (row.id, row.source, trace.item, span))
        yield Hit(position, id, source, trace.set, item, trace.rule, score, span, verdict)


def _span(text: str, overlap: Overlap, index: Passages) -> str | None:
    stretch = index.stretch(overlap, text)
    if stretch is None:
        return None
    words = located(text)
    shown = unicodedata.normalize("NFKC", text)[words[stretch[0]][1] : words[stretch[1]][2]]
    shown = " ".join(shown.split())
    return shown if len(shown) <= SPAN_CHARACTERS else shown[: SPAN_CHARACTERS - 3] + "..."


def _rejections(hits: Sequence[Hit]) -> dict[int, Rejection]:
    """For each row to remove its strongest hit, and how many there are beside it."""
    rejections = {}
    for position, of_row in groupby((hit for hit in hits if hit.verdict == "removed"), key=lambda hit: hit.row):
        first, *others = of_row
        detail = f"{first.set} {first.item} {first.rule} score={first.score:.2f}: {short(first.span)}"
        more = f"; and {len(others)} more" if others else ""
        rejections[position] = Rejection(first.id, first.source, "decontaminate", "contaminated", detail + more)
    return rejections


def _counts(hits: Sequence[Hit], evaluation: Evaluation, n_rows: int) -> dict[str, Any]:
    """Rows by what becomes of them because of this set."""
    by_rule: dict[int, str] = {}
    for hit in hits:
        if hit.verdict == "removed":
            by_rule.setdefault(hit.row, hit.rule)
    # A window takes what it was told to take; the other rules can be wrong.
    by_content = sum(rule != "in_window" for rule in by_rule.values()) / max(n_rows, 1)
    warning = None
    if by_content > PLAUSIBLE_RATE:
        warning = (
            f"{by_content:.1%} of the rows are in this set, more than the {PLAUSIBLE_RATE:.0%} that are plausible. "
            "Look at contamination/ before you trust the result: was the training set made from the evaluation set?"
        )
    return {
        **evaluation.plan,
        "items": len(evaluation.items),
        "items_found": len({hit.item for hit in hits if hit.verdict == "removed" and hit.rule != "in_window"}),
        "rows": n_rows,
        "removed": len(by_rule),
        "removal_rate": round(len(by_rule) / max(n_rows, 1), 6),
        "rules": dict(sorted(Counter(by_rule.values()).items())),
        "review": len({hit.row for hit in hits} - by_rule.keys()),
        "warning": warning,
    }
