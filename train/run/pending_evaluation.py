"""The suites of a run, the files of its evaluations, and the process that runs a pending evaluation.

RUN/evaluations/SUITE/step-000120.json               the result after a step, as `curate evaluate --out` writes it
RUN/evaluations/.pending/step-000120/request.json    the configuration, and the length limit of completions
                                     model/          the weights, if needed: evaluation.where = "own", or keep_best
                                     SUITE.jsonl     the samples so far, with their verdicts
                                     found.json      the metrics of finished suites

A resumed run continues a pending evaluation without repeating samples.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

from curate.dataset.output_folder import write_atomic
from curate.trust import TrustPolicy
from train.config import Config, WorkersConfig, as_table, from_table
from train.engine_options import EngineOptions
from train.errors import ConfigError, NoRunError
from train.evaluation.codeforces.rating import rate_evaluation
from train.evaluation.evaluate import evaluate
from train.evaluation.exercises import has_dates, parse_suite, read_exercises
from train.evaluation.result_metadata import collect_model_metadata, collect_suite_metadata, list_languages
from train.evaluation.results.result import Result, read_result, shorten_location
from train.evaluation.sample_store import SampleStore
from train.evaluation.suites import dataset
from train.evaluation.suites.suite import Exercise
from train.rollouts.rewards import open_sandbox
from train.sampling.engine_spec import clear_trainer_environment
from train.sampling.protocol import Sampler, SamplingParams

FOLDER = "evaluations"
_STEP = "step-"


def get_result_path(run: Path, suite: str, step: int) -> Path:
    """Return the path of the result for the weights after this step."""
    return run / FOLDER / suite / f"{_STEP}{step:06d}.json"


def _parse_step(path: Path) -> int:
    return int(path.stem.removeprefix(_STEP))


def delete_results_after(run: Path, step: int) -> None:
    """Delete the results of later steps, which will run again."""
    for path in _list_result_files(run):
        if _parse_step(path) > step:
            path.unlink()


def read_evaluations(run: Path) -> dict[str, dict[int, Result]]:
    """Return the results of a run by suite and ascending step.

    Raises NoRunError if there are none, and CurateError if one is damaged.
    """
    found: dict[str, dict[int, Result]] = {}
    for path in _list_result_files(run):
        found.setdefault(path.parent.name, {})[_parse_step(path)] = read_result(path)
    if not found:
        raise NoRunError(f"{run}: no evaluation is finished. Give the folder of a run with a section [evaluation].")
    return found


def _list_result_files(run: Path) -> list[Path]:
    return sorted((run / FOLDER).glob(f"[!.]*/{_STEP}*.json"))


@dataclass(frozen=True, slots=True)
class RunSuite:
    """A suite on which a run evaluates its model, with the exercises read.

    name      name in metrics and in evaluation.keep_best; see `get_metric_suite_name`
    location  where `read_exercises` finds the suite
    window    first and last contest date; "" for all
    """

    name: str
    location: str
    window: str
    exercises: tuple[Exercise, ...]


def read_suites(config: Config) -> tuple[RunSuite, ...]:
    """Read the problems of all suites of a configuration.

    Raises CurateError if a suite cannot be read, and ConfigError if two have the same name or evaluation.keep_best
    names none of them.
    """
    settings = config.evaluation
    locations = [("", settings.dataset)] * bool(settings.dataset) + [parse_suite(text) for text in settings.suites]
    names = [get_metric_suite_name(suite, location) for suite, location in locations]
    for name, n in Counter(names).items():
        if n > 1:
            raise ConfigError(f"evaluation.suites: {n} suites have the name {name}. Remove all but one.")
    if settings.keep_best and settings.keep_best not in names:
        raise ConfigError(
            f"evaluation.keep_best: {settings.keep_best!r} is not evaluated; "
            + (f"choose one of {', '.join(names)}." if names else "name it in evaluation.suites.")
        )
    suites = []
    for name, (suite, location) in zip(names, locations, strict=True):
        window = settings.window if len(locations) == 1 or has_dates(suite) else ""
        exercises = read_exercises(
            location,
            window,
            settings.problems,
            suite=suite,
            trust=TrustPolicy.from_choices(settings.include),
            prompt=config.prompt,
            languages=config.reward.languages,
        )
        suites.append(RunSuite(name, location, window, exercises))
    return tuple(suites)


def get_metric_suite_name(suite: str, location: str) -> str:
    """Return the name of a suite in metrics and folders; for a dataset, the name of its folder."""
    return shorten_location(location) if suite in ("", dataset.NAME) else suite


_PENDING = ".pending"
_REQUEST, _MODEL, _FOUND = "request.json", "model", "found.json"

SuiteMetrics = dict[str, dict[str, float]]  # metrics of an evaluation, by the suite's name


@dataclass(frozen=True, slots=True)
class PendingEvaluation:
    """An unfinished evaluation of the weights after a step. max_tokens: length limit of completions."""

    run: Path
    step: int
    max_tokens: int

    @property
    def folder(self) -> Path:
        return self.run / FOLDER / _PENDING / f"{_STEP}{self.step:06d}"

    @property
    def model_folder(self) -> Path:
        """The folder of the weights. If it exists, the weights are complete."""
        return self.folder / _MODEL

    def get_samples_path(self, suite: str) -> Path:
        return self.folder / f"{suite}.jsonl"

    def write_request(self, config: Config) -> None:
        """Write the request; delete the files of an earlier request with another configuration. Raises OSError."""
        path, table = self.folder / _REQUEST, as_table(config)
        if path.exists():
            before = json.loads(path.read_text(encoding="utf-8"))["config"]
            if {**before, "run": None} != {**table, "run": None}:  # no result depends on [run]
                for other in self.folder.iterdir():
                    if other.is_file():
                        other.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"run": str(self.run), "max_tokens": self.max_tokens, "config": table}))

    @classmethod
    def read(cls, folder: Path) -> tuple[Self, Config]:
        """Read the pending evaluation in `folder`, and its configuration."""
        request = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
        return cls(Path(request["run"]), _parse_step(folder), request["max_tokens"]), from_table(request["config"])

    def read_suite_metrics(self) -> SuiteMetrics:
        """Return the metrics of the finished suites."""
        path = self.folder / _FOUND
        found: SuiteMetrics = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def record_suite_metrics(self, suite: str, metrics: dict[str, float]) -> None:
        write_atomic(self.folder / _FOUND, json.dumps(self.read_suite_metrics() | {suite: metrics}))

    def remove(self) -> None:
        """Delete the folder, but first the request, since a folder without a request is ignored after a SIGKILL."""
        with suppress(OSError):
            (self.folder / _REQUEST).unlink()
        shutil.rmtree(self.folder, ignore_errors=True)


def find_unfinished_evaluations(run: Path) -> list[PendingEvaluation]:
    """Return the pending evaluations of an ended run by step; delete folders without a request."""
    pending = []
    for folder in sorted((run / FOLDER / _PENDING).glob(f"{_STEP}*")):
        if (folder / _REQUEST).exists():
            request = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
            # The request's path of the run folder is not used, since the folder may have moved.
            pending.append(PendingEvaluation(run, _parse_step(folder), request["max_tokens"]))
        else:
            shutil.rmtree(folder)
    return pending


def evaluate_suites(config: Config, suites: Iterable[RunSuite], sampler: Sampler, pending: PendingEvaluation) -> None:
    """Evaluate the unfinished suites, and write their results. Reuse stored samples.

    Raises CurateError if the sandbox fails repeatedly, and SamplerError if sampling fails.
    """
    settings, finished = config.evaluation, pending.read_suite_metrics()
    sampling = SamplingParams(settings.temperature, settings.top_p, pending.max_tokens)
    with open_sandbox(config.sandbox, config.limits) as sandbox:
        for suite in suites:
            if suite.name in finished:
                continue
            with SampleStore(pending.get_samples_path(suite.name)) as samples:
                evaluation = evaluate(
                    suite.exercises, partial(sampler.sample, sampling=sampling), sandbox, k=settings.k, samples=samples
                )
            engine = EngineOptions(config.engine.concurrency or None, config.engine.options)
            path = get_result_path(pending.run, suite.name, pending.step)
            path.parent.mkdir(parents=True, exist_ok=True)
            Result(
                collect_model_metadata(
                    f"{pending.run.resolve().name}/step-{pending.step}", None, engine.vllm.get("revision")
                ),
                collect_suite_metadata(suite.name, suite.location, suite.window, suite.exercises, evaluation.outcomes),
                {"k": evaluation.k, **sampling.as_table()},
                config.prompt.as_table(),
                engine.to_vllm_options(),
                0,
                evaluation.outcomes,
                evaluation.tokens,
                languages=list_languages(suite.exercises),
                ratings=rate_evaluation(evaluation.outcomes),
            ).write(path)
            pending.record_suite_metrics(suite.name, evaluation.compute_metrics())


def main(folder: str) -> None:
    """Run a pending evaluation with its own engine, in a child process of the run."""
    from train.sampling.open_engine import open_engine  # imported here, since readers of results need no engine

    clear_trainer_environment()
    pending, config = PendingEvaluation.read(Path(folder))
    suites = read_suites(config)
    with closing(open_engine(_configure_engine(config, pending.model_folder))) as sampler:
        evaluate_suites(config, suites, sampler, pending)


def _configure_engine(config: Config, model: Path) -> Config:
    """Return a configuration whose engine evaluates the weights in `model`."""
    settings = config.evaluation
    return replace(
        config,
        model=replace(config.model, path=str(model)),
        engine=replace(
            config.engine,
            gpus=settings.gpus,
            tensor_parallel=settings.tensor_parallel,
            memory_share=settings.memory_share,
            max_model_len=0,  # as many tokens as needed; the run's value may be below evaluation.max_tokens
            transfer="auto",
        ),
        rollout=replace(config.rollout, pipeline="sync"),
        workers=WorkersConfig(),
        evaluation=replace(settings, where="inside", gpus=(), tensor_parallel=1),
    )
