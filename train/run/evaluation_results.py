"""The evaluations of a run, read for comparisons and pictures."""

from pathlib import Path

from train.errors import NoRunError
from train.evaluation.results.reader import Result, read_result
from train.run_evaluation.result_paths import result_files


def read_evaluations(run: Path) -> dict[str, dict[int, Result]]:
    """Return the results of a run by suite and step; steps ascend.

    Raises NoRunError if there are none, and CurateError if one is damaged.
    """
    found = {
        suite: {step: read_result(path) for step, path in of_suite.items()}
        for suite, of_suite in result_files(run).items()
    }
    if not found:
        raise NoRunError(f"{run}: no evaluation is finished. Give the folder of a run with a section [evaluation].")
    return found


def step_label(step: int) -> str:
    """Return the name of a step in tables and pictures."""
    return f"step {step}"
