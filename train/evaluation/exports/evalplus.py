"""What EvalPlus judges: a line for each sample, with the program of its answer."""

import json

from curate.errors import CurateError
from train.evaluation.exports.export_data import ExportData, summarize_ids

SUITES = ("humaneval+", "mbpp+")


def format_samples(answers: ExportData) -> str:
    """Return the content of the file. Raises CurateError unless all tasks were evaluated, which EvalPlus demands."""
    evaluated = {problem.id for problem in answers.problems}
    left_out = [id for id in answers.exercises if id not in evaluated]
    if left_out:
        raise CurateError(
            f"{summarize_ids(left_out)} were not evaluated, and EvalPlus takes all tasks or none. Evaluate without "
            "--problems; samples that are there are not drawn again."
        )
    return "".join(
        json.dumps({"task_id": problem.id, "solution": source}) + "\n"
        for problem in answers.problems
        for source in answers.sources(problem.id)
    )
