"""The search for training rows that contain items of evaluation sets.

A row is removed by one of these rules if it

    same_key     has the key or address of an evaluation item
    in_window    comes from a source that publishes the set, and from a contest in the set's window
    same_text    is an item, word for word
    whole_item   contains, in one piece, an item (or the prose of an item) that is short or mostly boilerplate
    contained    contains at least half of the word 8-grams of an item (or of its prose), not counting boilerplate

A row also has the keys and dates of its removed duplicates (training_set.py). A row with at least a fifth but less than
half of the 8-grams stays, marked for review. A hit records the item, the share and the words in common.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from curate.dataset.contamination_hits import RULES, ContaminationHit
from curate.decontamination.evaluation_set import EvaluationSet
from curate.decontamination.overlap import Passage, PassageIndex, PassageOverlap
from curate.decontamination.training_set import RowReader, TrainingRow
from curate.manifest import SetCounts
from curate.problem import Rejection
from curate.reading.values import escape_surrogates, shorten
from curate.text.ngrams import find_word_spans

MIN_REMOVED_SHARE, MIN_REVIEWED_SHARE = 0.5, 0.2
# Share of contaminated training rows above which a mistake is more likely than contamination.
PLAUSIBLE_RATE = 0.05
SPAN_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class ContaminationResult:
    """The result of a comparison.

    hits        all hits, in the order of the rows
    rejections  rejections of the rows to remove, by position
    counts      counts for the manifest, by the name of the evaluation set
    """

    hits: list[ContaminationHit]
    rejections: dict[int, Rejection]
    counts: dict[str, SetCounts]


def find_contamination(rows: RowReader, evaluations: Sequence[EvaluationSet]) -> ContaminationResult:
    """Find the rows that contain items of the evaluation sets.

    Reads all rows once, and rows with hits a second time; reads nothing without evaluation sets.
    """
    if not evaluations:
        return ContaminationResult([], {}, {})
    items = [(number, item) for number, evaluation in enumerate(evaluations) for item in evaluation.items]
    with_key: dict[str, list[int]] = defaultdict(list)
    for number, (_, item) in enumerate(items):
        for key in item.keys:
            with_key[key].append(number)
    passages = [
        Passage(text, number, set_index) for number, (set_index, item) in enumerate(items) for text in item.texts
    ]
    index = PassageIndex(passages)
    candidates: dict[int, list[_Candidate]] = defaultdict(list)
    n_rows = 0

    def read_texts() -> Iterator[str]:
        nonlocal n_rows
        for position, row in rows(None):
            n_rows += 1
            for key in sorted(row.keys):
                for set_index, item in map(items.__getitem__, with_key.get(key, ())):
                    candidates[position].append(_Candidate(evaluations[set_index].name, item.id, "same_key", 1.0, key))
            for evaluation in evaluations:
                if evaluation.window and (day := evaluation.window.find_earliest_date(row.contests)):
                    candidates[position].append(
                        _Candidate(evaluation.name, str(evaluation.window), "in_window", 1.0, day)
                    )
            yield row.text

    index.scan(read_texts())
    for overlap in index.find_overlaps(MIN_REVIEWED_SHARE):
        set_index, item = items[passages[overlap.passage_index].item_index]
        candidates[overlap.text_index].append(
            _Candidate(evaluations[set_index].name, item.id, overlap.rule, overlap.share, overlap)
        )
    hits = [hit for position, row in rows(candidates) for hit in _iter_hits(position, row, candidates[position], index)]
    counts = {
        evaluation.name: _count_removals([hit for hit in hits if hit.set == evaluation.name], evaluation, n_rows)
        for evaluation in evaluations
    }
    return ContaminationResult(hits, _build_rejections(hits), counts)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible hit, before its row is read again. common: text in common, or the overlap with which to locate it"""

    set: str
    item: str
    rule: str
    score: float
    common: str | PassageOverlap


def _iter_hits(
    position: int, row: TrainingRow, candidates: Sequence[_Candidate], index: PassageIndex
) -> Iterator[ContaminationHit]:
    """Yield a hit for each item, by its strongest rule; the strongest hit first."""
    done = set()
    for candidate in sorted(candidates, key=lambda c: (RULES.index(c.rule), -c.score, c.set, c.item)):
        if (candidate.set, candidate.item) in done:
            continue
        span = (
            candidate.common
            if isinstance(candidate.common, str)
            else _find_matched_text(row.text, candidate.common, index)
        )
        if span is None:
            continue
        done.add((candidate.set, candidate.item))
        verdict = "removed" if candidate.score >= MIN_REMOVED_SHARE else "review"
        score = round(candidate.score, 4)
        id, source, item, span = map(escape_surrogates, (row.id, row.source, candidate.item, span))
        yield ContaminationHit(position, id, source, candidate.set, item, candidate.rule, score, span, verdict)


def _find_matched_text(text: str, overlap: PassageOverlap, index: PassageIndex) -> str | None:
    match = index.find_longest_match(overlap, text)
    if match is None:
        return None
    words = find_word_spans(text)
    shown = unicodedata.normalize("NFKC", text)[words[match[0]][1] : words[match[1]][2]]
    shown = " ".join(shown.split())
    return shown if len(shown) <= SPAN_CHARACTERS else shown[: SPAN_CHARACTERS - 3] + "..."


def _build_rejections(hits: Sequence[ContaminationHit]) -> dict[int, Rejection]:
    """Return a rejection for each row to remove, with the strongest hit and the number of others."""
    rejections = {}
    for position, group in groupby((hit for hit in hits if hit.verdict == "removed"), key=lambda hit: hit.row):
        first, *others = group
        detail = f"{first.set} {first.item} {first.rule} score={first.score:.2f}: {shorten(first.span)}"
        more = f"; and {len(others)} more" if others else ""
        rejections[position] = Rejection(first.id, first.source, "decontaminate", "contaminated", detail + more)
    return rejections


def _count_removals(hits: Sequence[ContaminationHit], evaluation: EvaluationSet, n_rows: int) -> SetCounts:
    by_rule: dict[int, str] = {}
    for hit in hits:
        if hit.verdict == "removed":
            by_rule.setdefault(hit.row, hit.rule)
    # Rows in a window do not count as suspicious, since the window selects them by source and date.
    by_content = sum(rule != "in_window" for rule in by_rule.values()) / max(n_rows, 1)
    warning = None
    if by_content > PLAUSIBLE_RATE:
        warning = (
            f"{by_content:.1%} of the rows are in this set, more than the {PLAUSIBLE_RATE:.0%} that are plausible. "
            "Look at contamination/ before you trust the result: was the training set made from the evaluation set?"
        )
    entry = evaluation.manifest_entry
    return SetCounts(
        name=entry.name,
        window=entry.window,
        files=entry.files,
        items=len(evaluation.items),
        items_found=len({hit.item for hit in hits if hit.verdict == "removed" and hit.rule != "in_window"}),
        rows=n_rows,
        removed=len(by_rule),
        removal_rate=round(len(by_rule) / max(n_rows, 1), 6),
        removed_by_rule=dict(sorted(Counter(by_rule.values()).items())),
        n_to_review=len({hit.row for hit in hits} - by_rule.keys()),
        warning=warning,
    )
