"""The schedule of a run's evaluations, their three execution modes, and the best weights so far.

An evaluation is due before the first step, after the last step, and in between every few steps or minutes.
evaluation.where selects its engine:

inside  within the step, with the run's engine: the run waits for it
idle    in a thread, with the run's engine, while the engine waits for the learner
own     in a separate process with its own engine, which reads the weights from files: the run neither waits for it nor
        fails with it

Metrics are logged for the step of the evaluated weights, even if the run is already at a later step. At most one
evaluation runs at a time.

The weights with the best result on one suite are kept independently of the checkpoints:

RUN/best/            the model, for transformers and vLLM
RUN/best/best.json   {"suite": "humaneval+", "step": 120, "pass@1": 0.61, "low": 0.55, "high": 0.67, ...}

The folder is replaced atomically. It holds the best weights ever evaluated in the run's folder, even if the run resumes
at an earlier step.
"""

import json
import logging
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from train.asynchronous.pipeline import Pipeline, TimelineWriter
from train.child import Child
from train.config import Config, EvaluationConfig
from train.errors import LearnerError
from train.interrupts import defer_interrupts
from train.learning.learner import Learner
from train.run.pending_evaluation import (
    FOLDER,
    PendingEvaluation,
    RunSuite,
    delete_results_after,
    evaluate_suites,
    find_unfinished_evaluations,
    get_result_path,
)

log = logging.getLogger(__name__)

MetricsCallback = Callable[[int, Mapping[str, float]], None]  # receives a step and its metrics


@dataclass(slots=True)
class EvaluationSchedule:
    """The steps after which an evaluation is due.

    evaluated_seconds: start of the latest evaluation, in seconds since the run's start
    """

    settings: EvaluationConfig
    last_step: int
    evaluated_seconds: float

    def is_due(self, step: int, seconds: float) -> bool:
        """Return whether an evaluation is due after `step`, at `seconds` since the run's start."""
        by_steps, by_seconds = self.settings.every_steps, self.settings.every_minutes * 60
        return (
            step in (0, self.last_step)
            or (by_steps > 0 and step % by_steps == 0)
            or (by_seconds > 0 and seconds - self.evaluated_seconds >= by_seconds)
        )


class EvaluationScheduler:
    """A scheduler of the evaluations of a run.

    suites             suites to evaluate; empty: schedule nothing
    log_deferred       receives the metrics of evaluations that end after their step
    evaluated_seconds  start of the latest evaluation, in seconds since the run's start
    """

    def __init__(
        self,
        config: Config,
        run: Path,
        learner: Learner,
        pipeline: Pipeline,
        suites: Sequence[RunSuite],
        log_deferred: MetricsCallback,
        timeline: TimelineWriter,
        *,
        evaluated_seconds: float,
    ) -> None:
        self.schedule = EvaluationSchedule(config.evaluation, config.run.steps, evaluated_seconds=evaluated_seconds)
        self._config = config
        self._where = config.evaluation.where
        self._run = run
        self._learner = learner
        self._pipeline = pipeline
        self._suites = suites
        self._names = tuple(suite.name for suite in suites)
        self._log_deferred = log_deferred
        self._timeline = timeline
        self._pending: PendingEvaluation | None = None
        self._began = 0.0
        self._skipped_during: int | None = None  # step of the pending evaluation when another one was skipped
        self._needs_engine = False  # whether an "idle" evaluation waits for the engine or uses it
        self._thread: threading.Thread | None = None
        self._thread_error: BaseException | None = None
        self._child: Child | None = None
        self._start_error = ""  # why the child process could not be started

    def resume(self, step: int) -> None:
        """Resume pending evaluations when the run continues after `step`, 0 at its start.

        Drops those of later steps, which will run again, and those whose weights are lost.
        """
        finish_interrupted_replace(self._run)
        delete_results_after(self._run, step if step else -1)
        for pending in find_unfinished_evaluations(self._run):
            if pending.step > step or step == 0 or not self._names:
                pending.remove()
                continue
            self.finish()
            is_complete = self._is_complete(pending)
            if not is_complete and pending.step < step and not (self._where == "own" and pending.model_folder.exists()):
                log.warning("step %d is not evaluated: the run ended during its evaluation", pending.step)
                pending.remove()
            elif is_complete or self._prepare(pending):
                self._begin(pending)
                self.collect()

    def evaluate_if_due(self, step: int, max_tokens: int) -> dict[str, float]:
        """Begin an evaluation of the weights after this step if one is due. Return its metrics; empty if pending.

        max_tokens: length limit of completions, unless evaluation.max_tokens is set
        """
        now = self._timeline.clock()
        if not self._names or not self.schedule.is_due(step, now):
            return {}
        if step == self._config.run.steps:
            self.finish()  # so the pending evaluation does not prevent the last one
        if self._pending is not None:
            if self._skipped_during != self._pending.step:  # warn once per pending evaluation
                log.warning(
                    "step %d is not evaluated: the evaluation of step %d still runs. Raise evaluation.every_steps or "
                    "every_minutes, or lower evaluation.problems or k",
                    step,
                    self._pending.step,
                )
            self._skipped_during = self._pending.step
            return {}
        self.schedule.evaluated_seconds = now
        pending = PendingEvaluation(self._run, step, self._config.evaluation.max_tokens or max_tokens)
        pending.remove()
        if not self._prepare(pending):
            return {}
        self._begin(pending)
        if self._where != "inside":
            return {}
        metrics = self._take_metrics()
        pending.remove()
        return metrics

    def begin_idle_evaluation(self) -> None:
        """Begin the pending "idle" evaluation, if any, in a thread that first waits until the engine is idle."""
        if self._needs_engine and self._thread is None:
            self._thread = threading.Thread(target=self._evaluate_when_idle, name="evaluation", daemon=True)
            self._thread.start()

    def wait_for_engine(self) -> None:
        """Wait until no "idle" evaluation uses the engine, so the engine can load new weights."""
        if self._where == "idle":
            self.finish()
        else:
            self.collect()

    def collect(self) -> None:
        """Log the metrics of the pending evaluation if it has ended."""
        if self._pending is None or self._needs_engine or (self._child is not None and self._child.poll() is None):
            return
        pending = self._pending
        if metrics := self._take_metrics():
            self._log_deferred(pending.step, metrics)
        pending.remove()  # after logging, so a run killed in between logs the metrics when it resumes

    def finish(self) -> None:
        """Wait for the pending evaluation, and log its metrics. Raises the error of an "idle" evaluation."""
        self.begin_idle_evaluation()
        if self._thread is not None:
            self._thread.join()
            self._thread, self._needs_engine = None, False
            if self._thread_error is not None:
                raise self._thread_error
        if self._child is not None and self._child.poll() is None:
            log.info("waiting for the pending evaluation")
            self._child.wait()
        self.collect()

    def close(self) -> None:
        """Stop the child process of a pending evaluation; a resumed run continues the evaluation.

        The thread of an "idle" evaluation ends when the run closes the engine.
        """
        if self._child is not None:
            self._child.end()

    def _prepare(self, pending: PendingEvaluation) -> bool:
        """Write the evaluation's request and weights; on failure, log a warning and return False."""
        try:
            pending.write_request(self._config)
            needs_weights = self._where == "own" or (self._where == "idle" and bool(self._config.evaluation.keep_best))
            if needs_weights and not pending.model_folder.exists():
                self._learner.save_pretrained(pending.model_folder)  # the learner has the weights of this step
        except (OSError, LearnerError) as error:
            log.warning("step %d is not evaluated: %s", pending.step, error)
            pending.remove()
            return False
        return True

    def _begin(self, pending: PendingEvaluation) -> None:
        self._pending, self._began = pending, self._timeline.clock()
        self._child, self._start_error = None, ""
        if self._is_complete(pending):
            return
        if self._where == "inside":
            evaluate_suites(self._config, self._suites, self._pipeline.sampler, pending)
        elif self._where == "idle":
            self._needs_engine = True
        else:
            try:
                log_path = self._run / FOLDER / "own.log"
                self._child = Child("train.run.pending_evaluation", str(pending.folder), log=log_path)
            except OSError as error:
                self._start_error = f"its process cannot be started: {error}"

    def _evaluate_when_idle(self) -> None:
        assert self._pending is not None
        try:
            self._pipeline.wait_until_idle()
            evaluate_suites(self._config, self._suites, self._pipeline.sampler, self._pending)
        except BaseException as error:
            self._thread_error = error

    def _take_metrics(self) -> dict[str, float]:
        """Return the metrics of the ended evaluation, and keep its weights if they are the best."""
        assert self._pending is not None
        pending, self._pending = self._pending, None
        self.close()
        found = pending.read_suite_metrics()
        if missing := [name for name in self._names if name not in found]:
            log.warning(
                "step %d is not evaluated on %s: %s", pending.step, ", ".join(missing), self._describe_failure()
            )
        self._timeline.record(pending.step, "evaluate", self._began, self._timeline.clock())
        if self._config.evaluation.keep_best in found:
            self._keep_if_best(pending)
        return {  # metric names contain the suite's name if there are several suites
            name if len(self._names) == 1 else name.replace("eval/", f"eval/{suite}/", 1): value
            for suite, metrics in found.items()
            if suite in self._names  # the run may have had other suites before it resumed
            for name, value in metrics.items()
        }

    def _describe_failure(self) -> str:
        if self._child is None:
            return self._start_error
        reason = self._child.describe_exit()
        return f"its process was {reason}" if (self._child.poll() or 0) < 0 else f"{reason} (see {self._child.log})"

    def _is_complete(self, pending: PendingEvaluation) -> bool:
        return pending.read_suite_metrics().keys() >= set(self._names)

    def _keep_if_best(self, pending: PendingEvaluation) -> None:
        suite = self._config.evaluation.keep_best
        try:
            record = build_record(suite, pending.step, get_result_path(self._run, suite, pending.step))
            if not is_better(record, read_best_record(self._run)):
                return
            if not pending.model_folder.exists():  # evaluation.where = "inside": the learner still has the weights
                self._learner.save_pretrained(pending.model_folder)
            with defer_interrupts():
                replace_best(self._run, pending.model_folder, record)
        except (OSError, LearnerError) as error:
            log.warning("the weights of step %d may be the best, but cannot be stored: %s", pending.step, error)


# --- the best weights ---

BEST = "best"
_RECORD_FILE, _NEW, _OLD = "best.json", ".best.new", ".best.old"
_COMPARED_KEYS = ("suite", "exercises_sha256", "temperature", "top_p")  # records that differ here are incomparable


def build_record(suite: str, step: int, result: Path) -> dict[str, Any]:
    """Build the record for best.json from the result of a step's evaluation."""
    content = json.loads(result.read_text(encoding="utf-8"))
    numbers, sampling = content["numbers"], content["sampling"]
    return {
        "suite": suite,
        "step": step,
        "pass@1": numbers["pass_at_1"],
        "low": numbers["low"],
        "high": numbers["high"],
        **{name: sampling[name] for name in ("k", "temperature", "top_p", "max_tokens")},
        "exercises_sha256": content["suite"]["exercises_sha256"],
    }


def read_best_record(run: Path) -> dict[str, Any] | None:
    """Return the record of the best weights; None if missing or damaged."""
    try:
        record = json.loads((run / BEST / _RECORD_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # the file may be empty after a power loss
        return None
    return record if isinstance(record, dict) and "pass@1" in record else None


def is_better(record: dict[str, Any], previous: dict[str, Any] | None) -> bool:
    """Return whether a record has a score above the previous one's, or a score but no comparable previous record."""
    if record["pass@1"] is None or isnan(record["pass@1"]):
        return False
    if previous is None or any(record[name] != previous.get(name) for name in _COMPARED_KEYS):
        return True
    return bool(record["pass@1"] > previous["pass@1"])


def replace_best(run: Path, model: Path, record: dict[str, Any]) -> None:
    """Write the record of a model's pass@1 into its folder, and move the folder to RUN/best. Raises OSError."""
    (model / _RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(run / _NEW, ignore_errors=True)
    model.rename(run / _NEW)
    if (run / BEST).exists():
        shutil.rmtree(run / _OLD, ignore_errors=True)
        (run / BEST).rename(run / _OLD)
    finish_interrupted_replace(run)


def finish_interrupted_replace(run: Path) -> None:
    """Complete or undo a `replace_best` interrupted by SIGKILL."""
    best, new, old = run / BEST, run / _NEW, run / _OLD
    if new.exists():
        shutil.rmtree(best, ignore_errors=True)
        new.rename(best)
    elif old.exists() and not best.exists():
        old.rename(best)
    shutil.rmtree(old, ignore_errors=True)
