"""The 880 problems of LiveCodeBench v5 with the published verdicts of o1-preview and o1-mini, one sample each."""

import gzip
import json
from datetime import date

import pytest
from source_rows import DATA

from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes

FILE = DATA / "evaluation" / "lcb_v5_o1.jsonl.gz"
needs_facts = pytest.mark.skipif(not FILE.is_file(), reason="the real data are not beside this checkout")
WINDOW = date(2024, 8, 1), date(2025, 1, 31)  # the usual one, both days included


def all_problems(model: str) -> list[ProblemOutcomes]:
    """Return the outcomes of all problems. The model is o1_preview or o1_mini."""
    rows = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]
    return [
        ProblemOutcomes(
            row["question_id"],
            ProblemMetadata(row["difficulty"], row["platform"], date.fromisoformat(row["contest_date"][:10])),
            tuple(row[model]),
            (0,) * len(row[model]),
            (False,) * len(row[model]),
        )
        for row in rows
    ]


def in_window(model: str) -> list[ProblemOutcomes]:
    """Return the outcomes of the 279 problems of the usual window."""
    first, last = WINDOW
    return [
        problem for problem in all_problems(model) if problem.metadata.date and first <= problem.metadata.date <= last
    ]
