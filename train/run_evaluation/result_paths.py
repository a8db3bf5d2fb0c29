"""Where the results of a run's evaluations lie.

RUN/evaluations/SUITE/step-000120.json  the weights after a step, as `curate evaluate --out` writes results
"""

from pathlib import Path

FOLDER = "evaluations"
_STEP = "step-"


def result_path(run: Path, suite: str, step: int) -> Path:
    """Return where the result of the weights after this step is, or will be."""
    return run / FOLDER / suite / f"{step_name(step)}.json"


def step_name(step: int) -> str:
    return f"{_STEP}{step:06d}"


def step_of(path: Path) -> int:
    """Return the step that the name of a result or of a pending evaluation has."""
    return int(path.stem.removeprefix(_STEP))


def result_files(run: Path) -> dict[str, dict[int, Path]]:
    """Return the files of all results of a run, by suite and step; steps ascend."""
    found: dict[str, dict[int, Path]] = {}
    for path in sorted((run / FOLDER).glob(f"[!.]*/{_STEP}*.json")):
        found.setdefault(path.parent.name, {})[step_of(path)] = path
    return found


def forget_after(run: Path, step: int) -> None:
    """Delete the results of later steps, which will be made again."""
    for of_suite in result_files(run).values():
        for found, path in of_suite.items():
            if found > step:
                path.unlink()
