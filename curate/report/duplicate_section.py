"""The report's section on removed duplicates: similarities, sources, and the least similar pairs.

Only the build has all pairs of removed and kept rows, so later reports copy the section from `report.json`.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from curate.json_records import json_key
from curate.problem import Problem, Rejection
from curate.reading.prompt_templates import strip_prompt_template
from curate.report.histogram import compute_histograms

N_PAIRS = 10
STATEMENT_CHARACTERS = 4_000  # maximum of each statement, to limit the size of the page
NEAR_DUPLICATE_REASON = "duplicate_near"


@dataclass(frozen=True, slots=True)
class PairMember:
    """One problem of a pair. statement: the compared text, without a prompt template"""

    id: str
    title: str
    statement: str


@dataclass(frozen=True, slots=True)
class DuplicatePair:
    """A removed near-duplicate, the row that was kept instead, and their Jaccard similarity."""

    jaccard: float
    removed: PairMember
    kept: PairMember


@dataclass(frozen=True, slots=True)
class DuplicateSection:
    """The section `duplicates` of the report.

    n_exact         removed rows with the same text as another row
    n_near          removed near-duplicates
    threshold       minimum similarity of removed rows; None if unknown
    similarity      histogram of the similarities of near-duplicates
    sources         names of the sources in `removal_counts`
    removal_counts  numbers of removed rows, by source of the removed row (rows) and of the kept row (columns)
    least_similar   the removed near-duplicates with the lowest similarity, where a mistake is likeliest
    """

    n_exact: int
    n_near: int
    threshold: float | None
    similarity: Mapping[str, Any]
    sources: tuple[str, ...]
    removal_counts: tuple[tuple[int, ...], ...] = field(metadata=json_key("removed_by_kept"))
    least_similar: tuple[DuplicatePair, ...]


def build_duplicate_section(
    removed: Collection[Rejection], *, threshold: float, load: Callable[[str], Problem]
) -> DuplicateSection:
    """Count the removed duplicates and choose the least similar pairs. load: returns a problem by its id"""
    similarities = [_get_similarity(rejection) for rejection in removed if rejection.reason == NEAR_DUPLICATE_REASON]
    pairs = Counter((rejection.source, _parse_source(rejection.kept_id or "")) for rejection in removed)
    names = tuple(sorted({name for pair in pairs for name in pair}))
    return DuplicateSection(
        n_exact=len(removed) - len(similarities),
        n_near=len(similarities),
        threshold=threshold,
        similarity=_compute_histogram(similarities, threshold),
        sources=names,
        removal_counts=tuple(tuple(pairs[source, kept] for kept in names) for source in names),
        least_similar=_find_least_similar(removed, load),
    )


def rebuild_duplicate_section(rejections: Iterable[Mapping[str, Any]], threshold: float | None) -> DuplicateSection:
    """Return the section of a dataset without an earlier report, with unknown similarities.

    rejections  the report's section on rejections
    threshold   minimum similarity of removed rows; None if unknown
    """
    counts = Counter[bool]()
    for entry in rejections:
        if entry["stage"] == "dedup":
            counts[entry["reason"] == NEAR_DUPLICATE_REASON] += entry["n"]
    similarity = {**_compute_histogram([], threshold), "unknown": counts[True]}
    return DuplicateSection(counts[False], counts[True], threshold, similarity, (), (), ())


def _find_least_similar(removed: Collection[Rejection], load: Callable[[str], Problem]) -> tuple[DuplicatePair, ...]:
    near = (
        (_get_similarity(rejection), rejection.id, rejection.kept_id)
        for rejection in removed
        if rejection.reason == NEAR_DUPLICATE_REASON and rejection.kept_id is not None
    )
    return tuple(
        DuplicatePair(similarity, _build_pair_member(load(id)), _build_pair_member(load(kept)))
        for similarity, id, kept in heapq.nsmallest(N_PAIRS, near)
    )


def _get_similarity(rejection: Rejection) -> float:
    return float("nan") if rejection.similarity is None else round(rejection.similarity, 3)


def _compute_histogram(similarities: list[float], threshold: float | None) -> Mapping[str, Any]:
    import pyarrow as pa

    known = [similarity for similarity in similarities if similarity == similarity]
    begin = int(100 * min([threshold or 1.0, *known]) + 1e-9) // 2 * 2
    edges = [step / 100 for step in range(min(begin, 98), 101, 2)]
    rows = pa.table({"similarity": pa.array(similarities, pa.float64())}).to_reader()
    found: Mapping[str, Any] = compute_histograms(rows, {"similarity": edges})["similarity"]
    return found


def _parse_source(id: str) -> str:
    return id.partition("/")[0]


def _build_pair_member(problem: Problem) -> PairMember:
    text = strip_prompt_template(problem.statement)
    cut = text if len(text) <= STATEMENT_CHARACTERS else text[: STATEMENT_CHARACTERS - 4] + " ..."
    return PairMember(problem.id, problem.title, cut)
