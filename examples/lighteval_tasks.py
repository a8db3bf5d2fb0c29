"""Evaluate suites in lighteval, with curate's judges and sandbox.

A file in the same folder, for `--custom-tasks`, needs two lines:

    from lighteval_tasks import lighteval_task
    TASKS_TABLE = [lighteval_task("humaneval+=HumanEvalPlus.jsonl.gz", n=8)]

lighteval samples all completions into its cache. Then the completions of a task are judged together in one sandbox.
"""

import hashlib
import json
import logging
import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lighteval.metrics.metrics_sample import SampleLevelComputation, SamplingMetric
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

from curate.dataset.output_folder import write_atomic
from curate.errors import CurateError
from curate.prompt import PromptFormat
from rewards.process_singletons import read_options_from_environment
from rewards.reward import ACCEPTED
from sandbox import Sandbox
from train.evaluation.exercises import parse_suite, read_exercises
from train.evaluation.judges.judge import JudgeResult
from train.evaluation.judges.time_limits import judge_all
from train.evaluation.protocols.settings import SuiteSettings, resolve_settings
from train.evaluation.suites.suite import Exercise

log = logging.getLogger(__name__)

_EXERCISE = "curate_exercise"  # in `specific` of a Doc: the id of its exercise
_SPLIT = "test"


@dataclass(frozen=True)
class SuiteRequest:
    """The suite of a task, without its tests: lighteval copies and prints it.

    suite     as for `curate evaluate --suite`: NAME, NAME=LOCATION or NAME?option=value
    window    FROM..TO, the first and the last day of contests, inclusive; empty for the protocol's, or else all
    protocol  as for `curate evaluate --protocol`; empty for none. Pass its temperature and top_p to lighteval
    form      form of the prompt, as for `curate evaluate --form`; empty for the protocol's, or else curate's
    """

    suite: str
    window: str = ""
    protocol: str = ""
    form: str = ""

    def resolve(self) -> SuiteSettings:
        given = {"window": self.window or None, "form": self.form or None}
        name = parse_suite(self.suite)[0]
        return resolve_settings(self.protocol or None, name, given, PromptFormat()).suite_settings


@lru_cache(4)  # few: the exercises hold all of their tests
def load_exercises(request: SuiteRequest) -> Mapping[str, Exercise]:
    """Return the exercises of a suite by their ids.

    Raises CurateError if the suite cannot be read, and for forms in which the model continues a partial text.
    """
    name, location = parse_suite(request.suite)
    settings = request.resolve()
    found = read_exercises(location, settings.window, suite=name, settings=settings)
    if any(isinstance(exercise.prompt, str) or exercise.prompt[-1]["role"] != "user" for exercise in found):
        raise CurateError(
            f"{request.suite}: in this form the model continues a partial text, which lighteval does not support; "
            "use `curate evaluate`, or another form, such as evalplus-thinking"
        )
    return {exercise.id: exercise for exercise in found}


def lighteval_task(
    suite: str, *, n: int | None = None, window: str = "", protocol: str = "", form: str = "", name: str = ""
) -> LightevalTaskConfig:
    """Return the task of a suite, with pass@1 by curate's judges as its metric.

    n     number of samples per problem; None for the protocol's, or else that of `curate evaluate`
    name  the task's name in lighteval; empty for "curate_" and the name of the suite

    The other arguments are those of SuiteRequest. lighteval reads problems from files, so ids and prompts are written
    to ~/.cache/curate. Raises CurateError for unknown suites, and as load_exercises does.
    """
    request = SuiteRequest(suite, window, protocol, form)
    used = request.resolve()
    rows = [_make_row(exercise) for exercise in load_exercises(request).values()]
    metric = SampleLevelMetric(
        metric_name="curate_pass@1",
        category=SamplingMethod.GENERATIVE,
        higher_is_better=True,
        sample_level_fn=SolveRateMetric(request, used.k if n is None else n),
        corpus_level_fn=mean_judged_share,
        batched_compute=True,
    )
    return LightevalTaskConfig(
        name=name or "curate_" + parse_suite(suite)[0].replace("+", "_plus"),
        prompt_function=_make_doc,
        hf_repo=str(_write_rows(rows)),
        hf_subset="default",
        hf_avail_splits=[_SPLIT],
        evaluation_splits=[_SPLIT],
        metrics=[metric],
        generation_size=used.max_tokens,
        stop_sequence=used.stop,
    )


class SolveRateMetric(SamplingMetric, SampleLevelComputation):
    """The share of right samples, by problem.

    Samples without a verdict do not count. A problem without any verdict is excluded from the mean, and the standard
    error is then NaN.
    """

    def __init__(self, request: SuiteRequest, n: int) -> None:
        super().__init__()
        self.request = request
        self.n = n  # lighteval sets it for a task named NAME@n=8

    def num_samples(self) -> int:
        return self.n

    def compute(self, responses: Sequence[ModelResponse], docs: Sequence[Doc], **others: Any) -> list[float]:
        """Judge the completions of all problems. Raises CurateError if the sandbox fails repeatedly."""
        exercises = load_exercises(self.request)
        answers = [
            (index, exercises[doc.specific[_EXERCISE]], text)
            for index, (doc, response) in enumerate(zip(docs, responses, strict=True))
            for text in response.final_text
        ]
        right: defaultdict[int, list[bool]] = defaultdict(list)
        with read_options_from_environment().open() as sandbox:
            for index, verdict in _judge(answers, sandbox):
                right[index].append(verdict == ACCEPTED)
        return [sum(right[index]) / len(right[index]) if right[index] else math.nan for index in range(len(docs))]


def mean_judged_share(shares: Sequence[float]) -> float:
    """Return the mean of the shares other than NaN; NaN if there are none."""
    known = [share for share in shares if not math.isnan(share)]
    return sum(known) / len(known) if known else math.nan


def _judge(answers: list[tuple[int, Exercise, str]], sandbox: Sandbox) -> list[tuple[int, str]]:
    """Return (index, verdict) of each judged completion."""

    def judge(answer: tuple[int, Exercise, str], time_factor: float) -> JudgeResult:
        return answer[1].judge_completion(answer[2], sandbox, time_factor=time_factor)

    verdicts = []
    for (index, exercise, _), found in judge_all(answers, judge, sandbox):
        if isinstance(found, Exception):
            log.warning("%s: no verdict for a completion: %s", exercise.id, found)
        else:
            verdicts.append((index, found.verdict))
    return verdicts


def _make_doc(row: dict[str, Any], task_name: str) -> Doc:
    return Doc(
        query=row["query"],
        instruction=row["instruction"] or None,
        choices=[""],
        gold_index=0,
        specific={_EXERCISE: row["id"]},
        task_name=task_name,
    )


def _make_row(exercise: Exercise) -> dict[str, str]:
    *before, last = exercise.prompt
    return {
        "id": exercise.id,
        "query": last["content"],
        "instruction": "".join(f"{message['content']}\n\n" for message in before),
    }


def _write_rows(rows: list[dict[str, str]]) -> Path:
    """Write a dataset with these rows, and return its folder."""
    content = "".join(json.dumps(row) + "\n" for row in rows)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curate" / "lighteval"
    folder = cache / hashlib.sha256(content.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / f"{_SPLIT}.jsonl", content)  # another process may read the file concurrently
    return folder
