"""What LiveCodeBench's leaderboard and its computation of scores read: problems with their answers and verdicts."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.reading.tables import Row
from curate.reading.values import optional_text
from sandbox import Verdict
from train.evaluation.exports.export_data import ExportData, summarize_ids
from train.evaluation.exports.livecodebench import LiveCodeBenchSelection, id_of
from train.evaluation.results.result import short_model_name


def path(answers: ExportData) -> Path:
    """Return the path that the leaderboard expects, below the folder of all models."""
    result = answers.loaded_result.result
    name = f"Scenario.codegeneration_{result.k}_{float(result.sampling['temperature'])}_eval_all.json"
    return Path(short_model_name(result.model)) / name


def format_submission(answers: ExportData, benchmark: LiveCodeBenchSelection) -> str:
    """Return the content of the file. Raises CurateError if samples have no verdict."""
    unknown = [problem.id for problem in answers.problems if None in problem.correct]
    if unknown:
        raise CurateError(
            f"samples of {summarize_ids(unknown)} have no verdict, and the leaderboard cannot say that. Run the same "
            "`curate evaluate` again, which judges them."
        )
    bits = {problem.id: [bool(bit) for bit in problem.correct] for problem in answers.problems}
    return json.dumps([_entry(row, answers, bits.get(id_of(row))) for row in benchmark.rows], indent=1) + "\n"


def _entry(row: Row, answers: ExportData, graded: list[bool] | None) -> dict[str, Any]:
    """Return what the file says of a problem; graded is None for one that we cannot read."""
    k = answers.loaded_result.result.k
    records = answers.records[id_of(row)] if graded is not None else ()
    graded = graded if graded is not None else [False] * k
    return {
        **{name: optional_text(row[name]) for name in ("question_title", "question_content", "platform")},
        **{name: optional_text(row[name]) for name in ("question_id", "contest_id")},
        "contest_date": datetime.fromisoformat(str(row["contest_date"])).isoformat(),
        **{name: optional_text(row[name]) for name in ("starter_code", "difficulty")},
        "output_list": [record.text for record in records] or [""] * k,
        "code_list": answers.sources(id_of(row)) if records else [""] * k,
        "graded_list": graded,
        "pass@1": graded.count(True) / len(graded),
        "metadata": [json.dumps(_said_of(record.verdict)) for record in records] or ["{}"] * k,
    }


def _said_of(verdict: str) -> dict[str, str]:
    return {} if verdict == Verdict.ACCEPTED.value else {"error_message": verdict}
