"""Report examples of the evidence for each cause: what the rows are, and what their solutions answered."""

import heapq
from typing import Any

from curate.dataset.dataset import Dataset
from curate.dataset.evidence import EVIDENCE, EVIDENCE_COLUMNS, PROGRAM_COLUMNS, judging_description, program_names
from curate.report.rejections import sort_key

N_EXAMPLES = 3
TEXT_CHARACTERS = 1500  # of each text, which limits the size of the page
_ELSEWHERE = ("dedup", "decontaminate", "difficulty")  # other sections show why these stages reject rows
_Ranked = tuple[int, str, dict[str, Any]]


def build_evidence_section(dataset: Dataset) -> list[dict[str, Any]]:
    """Return an entry for each stage, reason and cause, with the number of its rows and the shortest examples.

    Rows whose solutions were executed are preferred as examples.
    """
    if not dataset.columns(EVIDENCE).issuperset(EVIDENCE_COLUMNS):
        return []
    numbers: dict[tuple[str, str, str], int] = {}
    examples: dict[tuple[str, str, str], list[_Ranked]] = {}
    for row in dataset.rows(EVIDENCE, list(EVIDENCE_COLUMNS)):
        key = row["stage"], row["reason"], row["cause"]
        if key[0] not in _ELSEWHERE:
            numbers[key] = numbers.get(key, 0) + 1
            ranked = [*examples.get(key, ()), (_length(row), row["id"], row)]
            examples[key] = heapq.nsmallest(N_EXAMPLES, ranked, key=lambda example: example[:2])
    entries = [
        {
            "stage": stage,
            "reason": reason,
            "cause": cause,
            "n": n,
            "examples": [_example(row) for _, _, row in examples[stage, reason, cause]],
        }
        for (stage, reason, cause), n in numbers.items()
    ]
    return sorted(entries, key=sort_key)


def _length(row: dict[str, Any]) -> int:
    """Return how much there is to read, and more than any such length for a row without a test."""
    if row["test"] is None:
        return 10**9 + len(row["statement"])
    return len(row["statement"]) + len(row["input"]) + len(row["expected"]) + sum(map(len, row["programs"]))


def _example(row: dict[str, Any]) -> dict[str, Any]:
    columns = zip(program_names(row), *(row[name] for name in PROGRAM_COLUMNS), strict=True)
    programs = [
        {
            "name": name,
            "language": language,
            "verdict": verdict,
            "message": message if output is None else "",
            "output": None if output is None else _beginning(output),
            "source": _beginning(source),
        }
        for name, language, verdict, message, output, source in columns
    ]
    example = {"id": row["id"], "detail": row["detail"], "statement": _beginning(row["statement"])}
    if row["test"] is None:
        return example | {"test": None, "programs": []}
    texts = {name: _beginning(row[name]) for name in ("input", "expected")}
    return example | {"test": row["test"], "how": judging_description(row), **texts, "programs": programs}


def _beginning(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]}\n[... cut]"
