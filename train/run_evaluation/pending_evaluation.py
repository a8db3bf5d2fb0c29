"""An evaluation that is not over, as a folder: it outlives the process that makes the evaluation, and the run.

RUN/evaluations/.pending/step-000120/request.json  the configuration, and the length limit of the answers
                                     model/        the weights, if not the run's engine evaluates them
                                     SUITE.jsonl   the samples so far, with their verdicts
                                     found.json    the metrics of the suites that are finished
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from curate.dataset.output_folder import write_atomic
from train.config import Config, as_table, from_table
from train.run_evaluation.result_paths import FOLDER, step_name, step_of

_PENDING = ".pending"
_REQUEST, _MODEL, _FOUND = "request.json", "model", "found.json"

SuiteMetrics = dict[str, dict[str, float]]  # by suite, the metrics of an evaluation


@dataclass(frozen=True, slots=True)
class PendingEvaluation:
    """The evaluation of the weights after a step.

    run         folder of the run
    max_tokens  length limit of the answers
    """

    run: Path
    step: int
    max_tokens: int

    @property
    def folder(self) -> Path:
        return self.run / FOLDER / _PENDING / step_name(self.step)

    @property
    def model_folder(self) -> Path:
        """Return the folder for the weights. It exists only if they are whole."""
        return self.folder / _MODEL

    def samples_path(self, suite: str) -> Path:
        return self.folder / f"{suite}.jsonl"

    def write_request(self, config: Config) -> None:
        """Write the request. What was found with another configuration of the evaluation is forgotten.

        Raises OSError if it cannot be written.
        """
        path, table = self.folder / _REQUEST, as_table(config)
        if path.exists() and _deciding(json.loads(path.read_text(encoding="utf-8"))["config"]) != _deciding(table):
            for other in self.folder.iterdir():
                if other.is_file():
                    other.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"run": str(self.run), "max_tokens": self.max_tokens, "config": table}))

    @classmethod
    def read(cls, folder: Path) -> tuple[Self, Config]:
        """Return what `request` has written."""
        request = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
        return cls(Path(request["run"]), step_of(folder), request["max_tokens"]), from_table(request["config"])

    def suite_metrics(self) -> SuiteMetrics:
        """Return the metrics of the suites that are finished."""
        path = self.folder / _FOUND
        found: SuiteMetrics = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def record_suite_metrics(self, suite: str, metrics: dict[str, float]) -> None:
        """Note that a suite is finished."""
        write_atomic(self.folder / _FOUND, json.dumps(self.suite_metrics() | {suite: metrics}))

    def remove(self) -> None:
        """Delete the folder. The request goes first: without it, what a kill leaves counts as nothing."""
        with suppress(OSError):
            (self.folder / _REQUEST).unlink()
        shutil.rmtree(self.folder, ignore_errors=True)


def _deciding(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a configuration that results can depend on: all but [run]."""
    return {name: section for name, section in table.items() if name != "run"}


def unfinished_evaluations(run: Path) -> list[PendingEvaluation]:
    """Return the evaluations that were not over when the run ended, in the order of their steps.

    Folders of those that had not begun are deleted.
    """
    pending = []
    for folder in sorted((run / FOLDER / _PENDING).glob("step-*")):
        if (folder / _REQUEST).exists():
            request = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
            pending.append(
                PendingEvaluation(run, step_of(folder), request["max_tokens"])
            )  # the run may have been moved
        else:
            shutil.rmtree(folder)
    return pending
