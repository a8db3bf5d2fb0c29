"""The evaluations of a run: when one is due, where it is made, and the best weights so far.

An evaluation is due before the first step, after the last, and in between by steps, by time, or both. It is made where
evaluation.where says:

inside  within the step, with the run's engine: the run waits for it
idle    with the run's engine, in a thread, once the engine has drawn the next batch and waits for the learner
own     in a process of its own with an engine of its own, which reads the weights from files. A failure costs no more
        than this evaluation; the price is one start of an engine, which the run does not wait for

Its metrics are those of the step whose weights it has, whenever they arrive. At most one evaluation runs at a time.

The weights of the step that solved most of one suite are kept whatever becomes of the checkpoints:

RUN/best/            the model, as transformers and vLLM read it
RUN/best/best.json   {"suite": "humaneval+", "step": 120, "pass@1": 0.61, "low": 0.55, "high": 0.67, ...}

The folder is always whole. It holds the best of all that was evaluated in the folder of the run: if a run is continued
before that step, it stays until a better one is found.
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
    evaluate_suites,
    forget_after,
    result_path,
    unfinished_evaluations,
)

log = logging.getLogger(__name__)

MetricsCallback = Callable[[int, Mapping[str, float]], None]  # called with a step and its metrics


@dataclass(slots=True)
class EvaluationSchedule:
    """The steps after which an evaluation is due."""

    settings: EvaluationConfig
    last_step: int  # of the run
    seconds: float  # when the latest evaluation began, since the run's start

    def is_due(self, step: int, seconds: float) -> bool:
        """Return whether the weights after this step, made so many seconds after the run's start, are evaluated."""
        by_steps, by_seconds = self.settings.every_steps, self.settings.every_minutes * 60
        return (
            step in (0, self.last_step)
            or (by_steps > 0 and step % by_steps == 0)
            or (by_seconds > 0 and seconds - self.seconds >= by_seconds)
        )


class EvaluationScheduler:
    """Evaluates the weights of a run on its suites.

    run       folder of the run
    suites    the suites; without any, nothing is evaluated
    log_late  called with the metrics of evaluations that were not made within the step
    seconds   when the latest evaluation began, in seconds since the run's start
    """

    def __init__(
        self,
        config: Config,
        run: Path,
        learner: Learner,
        pipeline: Pipeline,
        suites: Sequence[RunSuite],
        log_late: MetricsCallback,
        timeline: TimelineWriter,
        *,
        seconds: float,
    ) -> None:
        self.schedule = EvaluationSchedule(config.evaluation, config.run.steps, seconds=seconds)
        self._config = config
        self._where = config.evaluation.where
        self._run = run
        self._learner = learner
        self._pipeline = pipeline
        self._suites = suites
        self._names = tuple(suite.name for suite in suites)
        self._log_late = log_late
        self._timeline = timeline
        self._pending: PendingEvaluation | None = None
        self._began = 0.0
        self._left_out_during: int | None = None  # step whose evaluation another one would have had to wait for
        self._needs_engine = False  # "idle": the evaluation waits for the engine, or the thread has it
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None  # of the thread
        self._child: Child | None = None
        self._refusal = ""  # why there is no process

    def resume(self, step: int) -> None:
        """Go on after this step, the last one that was made; 0: the run begins. Evaluations that were not over are made
        if their weights are still there."""
        finish_interrupted_replace(self._run)
        forget_after(self._run, step if step else -1)
        for pending in unfinished_evaluations(self._run):
            if pending.step > step or step == 0 or not self._names:
                pending.remove()  # the step will be made again
                continue
            self.finish()
            is_complete = self._is_complete(pending)
            if not is_complete and pending.step < step and not (self._where == "own" and pending.model_folder.exists()):
                log.warning("step %d is not evaluated: the run ended before it was", pending.step)
                pending.remove()
            elif is_complete or self._prepare(pending):
                self._begin(pending)
                self.collect()

    def after_step(self, step: int, max_tokens: int) -> dict[str, float]:
        """Begin to evaluate the weights after this step if that is due. Returns the metrics if they are known at once.

        max_tokens: length limit of the answers, unless evaluation.max_tokens is another one
        """
        now = self._timeline.clock()
        if not self._names or not self.schedule.is_due(step, now):
            return {}
        if step == self._config.run.steps:
            self.finish()  # the last step is always evaluated
        if self._pending is not None:
            if self._left_out_during != self._pending.step:  # one warning is enough: by minutes, each step is due now
                log.warning(
                    "step %d is not evaluated: the evaluation of step %d is not over. Evaluate less often, or on fewer "
                    "problems: evaluation.every_steps, every_minutes, problems, k",
                    step,
                    self._pending.step,
                )
            self._left_out_during = self._pending.step
            return {}
        self.schedule.seconds = now
        pending = PendingEvaluation(self._run, step, self._config.evaluation.max_tokens or max_tokens)
        pending.remove()
        if not self._prepare(pending):
            return {}
        self._begin(pending)
        if self._where != "inside":
            return {}
        metrics = self._take()
        pending.remove()
        return metrics

    def on_engine_idle(self) -> None:
        """Note that the engine has a batch to draw, and nothing to do after that until it gets new weights."""
        if self._needs_engine and self._thread is None:
            self._thread = threading.Thread(target=self._evaluate_when_idle, name="evaluation", daemon=True)
            self._thread.start()

    def wait_for_engine(self) -> None:
        """Wait until the engine may get new weights."""
        if self._where == "idle":
            self.finish()
        else:
            self.collect()

    def collect(self) -> None:
        """Log the metrics of the evaluation if it is over."""
        if self._pending is None or self._needs_engine or (self._child is not None and self._child.status() is None):
            return
        pending = self._pending
        if metrics := self._take():
            self._log_late(pending.step, metrics)
        pending.remove()  # only now: if the run is killed before, it finds the metrics when it is resumed

    def finish(self) -> None:
        """Wait for the evaluation that was begun last, and log its metrics. Raises what the idle engine has raised."""
        self.on_engine_idle()
        if self._thread is not None:
            self._thread.join()
            self._thread, self._needs_engine = None, False
            if self._error is not None:
                raise self._error
        if self._child is not None and self._child.status() is None:
            log.info("waits for the evaluation that is not over")
            self._child.wait()
        self.collect()

    def close(self) -> None:
        """Give up an evaluation that is not over, which a resumed run continues.

        A thread ends when the run closes the engine.
        """
        if self._child is not None:
            self._child.end()  # with the processes that vLLM has left

    def _prepare(self, pending: PendingEvaluation) -> bool:
        """Write what the evaluation needs. Returns False, with a warning, if it cannot be written: it is left out."""
        try:
            pending.write_request(self._config)
            needs_weights = self._where == "own" or (self._where == "idle" and bool(self._config.evaluation.keep_best))
            if needs_weights and not pending.model_folder.exists():
                self._learner.save_pretrained(pending.model_folder)  # it has them: this is its latest step
        except (OSError, LearnerError) as error:
            log.warning("step %d is not evaluated: %s", pending.step, error)
            pending.remove()
            return False
        return True

    def _begin(self, pending: PendingEvaluation) -> None:
        self._pending, self._began = pending, self._timeline.clock()
        self._child, self._refusal = None, ""
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
                self._refusal = f"its process cannot be started: {error}"

    def _evaluate_when_idle(self) -> None:
        assert self._pending is not None
        try:
            self._pipeline.wait_until_idle()
            evaluate_suites(self._config, self._suites, self._pipeline.sampler, self._pending)
        except BaseException as error:
            self._error = error

    def _take(self) -> dict[str, float]:
        """Return the metrics of the evaluation that is over, and keep its weights if they are the best."""
        assert self._pending is not None
        pending, self._pending = self._pending, None
        self.close()
        found = pending.suite_metrics()
        if missing := [name for name in self._names if name not in found]:
            log.warning("step %d is not evaluated on %s: %s", pending.step, ", ".join(missing), self._failure_reason())
        self._timeline.record(pending.step, "evaluate", self._began, self._timeline.clock())
        if self._config.evaluation.keep_best in found:
            self._keep_if_best(pending)
        return {  # with several suites, the names of metrics have that of the suite in them
            name if len(self._names) == 1 else name.replace("eval/", f"eval/{suite}/", 1): value
            for suite, metrics in found.items()
            if suite in self._names  # before it was resumed, the run may have had others
            for name, value in metrics.items()
        }

    def _failure_reason(self) -> str:
        if self._child is None:
            return self._refusal
        words = self._child.last_words()
        return f"its process was {words}" if (self._child.status() or 0) < 0 else f"{words} (see {self._child.log})"

    def _is_complete(self, pending: PendingEvaluation) -> bool:
        return pending.suite_metrics().keys() >= set(self._names)

    def _keep_if_best(self, pending: PendingEvaluation) -> None:
        suite = self._config.evaluation.keep_best
        try:
            record = best_record(suite, pending.step, result_path(self._run, suite, pending.step))
            if not is_better(record, read_best_record(self._run)):
                return
            if not pending.model_folder.exists():  # evaluated within the latest step, whose weights the learner has
                self._learner.save_pretrained(pending.model_folder)
            with defer_interrupts():
                replace_best(self._run, pending.model_folder, record)
        except (OSError, LearnerError) as error:
            log.warning("step %d may be the best so far and cannot be kept: %s", pending.step, error)


# --- the best weights ---

BEST = "best"
_RECORD_FILE, _NEW, _OLD = "best.json", ".best.new", ".best.old"
_COMPARABLE_KEYS = ("suite", "exercises_sha256", "temperature", "top_p")  # equal in all records that are compared


def best_record(suite: str, step: int, result: Path) -> dict[str, Any]:
    """Return the record of the weights after a step, from the result of their evaluation."""
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
    """Return the record of the best weights so far, or None if there are none, or the record is damaged."""
    try:
        record = json.loads((run / BEST / _RECORD_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a machine that lost its power may leave an empty file
        return None
    return record if isinstance(record, dict) and "pass@1" in record else None


def is_better(record: dict[str, Any], previous: dict[str, Any] | None) -> bool:
    """Return whether weights take the place of those before: equal ones do not.

    An earlier record about another suite, or other problems, cannot be compared and gives way.
    """
    if record["pass@1"] is None or isnan(record["pass@1"]):
        return False
    if previous is None or any(record[name] != previous.get(name) for name in _COMPARABLE_KEYS):
        return True
    return bool(record["pass@1"] > previous["pass@1"])


def replace_best(run: Path, model: Path, record: dict[str, Any]) -> None:
    """Make a model the best one. Its folder is moved. Raises OSError if it cannot be."""
    (model / _RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(run / _NEW, ignore_errors=True)
    model.rename(run / _NEW)
    if (run / BEST).exists():
        shutil.rmtree(run / _OLD, ignore_errors=True)
        (run / BEST).rename(run / _OLD)
    finish_interrupted_replace(run)


def finish_interrupted_replace(run: Path) -> None:
    """Complete what a run that was killed within `replace_best` had begun."""
    best, new, old = run / BEST, run / _NEW, run / _OLD
    if new.exists():
        shutil.rmtree(best, ignore_errors=True)
        new.rename(best)
    elif old.exists() and not best.exists():
        old.rename(best)
    shutil.rmtree(old, ignore_errors=True)
