"""What LiveCodeBench's custom evaluator judges: for each problem, the programs of all samples."""

import json

from train.evaluation.exports.export_data import ExportData
from train.evaluation.exports.livecodebench import LiveCodeBenchSelection, id_of


def format_samples(answers: ExportData, benchmark: LiveCodeBenchSelection) -> str:
    """Return the content of the file."""
    k = answers.loaded_result.result.k
    found = [
        {
            "question_id": row["question_id"],
            "code_list": [""] * k if id_of(row) in benchmark.unreadable else answers.sources(id_of(row)),
        }
        for row in benchmark.rows
    ]
    return json.dumps(found, indent=1) + "\n"
