"""The model that `curate evaluate` asks.

MERGED The evaluation on one suite: it is prepared before the model is loaded, and then run.

MERGED What `curate evaluate` prints of the evaluation on one suite.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sandbox.commands.console import ProgressBar
from sandbox.commands.table import warn
from train.commands.options import print_cells

if TYPE_CHECKING:
    from curate.prompt import PromptFormat
    from curate.trust import TrustPolicy
    from sandbox import SandboxOptions
    from train.engine_options import EngineOptions
    from train.evaluation.codeforces.contests import Contest
    from train.evaluation.evaluate import EvaluationResult
    from train.evaluation.exercise import Exercise
    from train.evaluation.protocols.settings import EvaluationSettings, ProtocolOverrides
    from train.evaluation.results.tables import Prices
    from train.sampling.protocol import Sampler


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """A model, and how it is run.

    base_url  address of a server; None: it is run here
    prices    of its tokens; None: not known
    """

    name: str
    base_url: str | None
    engine: "EngineOptions"
    prompt: "PromptFormat"
    prices: "Prices | None" = None

    def check(self) -> None:
        """Raise TrainError if there is no such model here, or if the options are not for it."""
        from train.sampling.model_name import check_model

        if self.base_url is not None:
            self.engine.server_concurrency()
        else:
            check_model(self.name, self.engine.vllm.get("revision"))

    def check_chat(self, exercises: "Iterable[Exercise]") -> None:
        """Raise SamplerError if the model would be asked in a chat and cannot chat, as far as its files here say."""
        from train.sampling.text import check_chat_template

        chats = any(isinstance(one.prompt, list) for one in exercises)
        if chats and self.base_url is None and "tokenizer" not in self.engine.vllm:
            check_chat_template(self.name, self.engine.vllm.get("revision"))

    @contextmanager
    def open(self) -> "Iterator[Sampler]":
        """Load the model. Raises SamplerError."""
        from train.sampling.open_engine import open_sampler

        sampler = open_sampler(self.name, self.base_url, self.engine, self.prompt.template_arguments)
        with closing(sampler):
            yield sampler


@dataclass(frozen=True, slots=True)
class SuiteEvaluation:
    """The evaluation on one suite.

    suite        its name; empty: none was named
    location     where its rows are
    result_path  the result file; None: no file
    contests     those with which the model can be rated; none for most suites
    """

    suite: str
    location: str
    settings: "EvaluationSettings"
    exercises: "tuple[Exercise, ...]"
    sandbox: "SandboxOptions"
    result_path: Path | None
    contests: "Sequence[Contest]" = ()

    @property
    def samples_path(self) -> Path | None:
        """Return the path of the file that keeps the samples; None: they are not kept."""
        return self.result_path and self.result_path.with_name(self.result_path.name + ".samples.jsonl")


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """What all jobs share, beside the model.

    protocol            the name of a protocol; None: none
    overrides           what the user gives instead of what the protocol says
    max_problems        the maximum number of problems; 0: all
    contests_path       the file of contests for a rating; None: where it was fetched to, if it was
    has_several_suites  whether there are several suites. Then a window is for those that have dates
    """

    protocol: str | None
    overrides: "ProtocolOverrides"
    prompt: "PromptFormat"
    max_problems: int
    trust: "TrustPolicy"
    languages: tuple[str, ...]
    contests_path: Path | None = None
    has_several_suites: bool = False


def prepare(
    suite: str, location: str, out: Path | None, options: EvaluationOptions, sandbox: "SandboxOptions"
) -> SuiteEvaluation:
    """Read a suite. Raises CurateError and SandboxError for what cannot be evaluated."""
    from curate.dataset.needed_packages import with_packages
    from train.evaluation.codeforces.contests import ContestMetadata
    from train.evaluation.codeforces.rating import known_contests
    from train.evaluation.exercises import read_exercises
    from train.evaluation.protocols.settings import resolve_settings
    from train.evaluation.suites.registry import has_dates

    wishes = options.overrides
    if options.has_several_suites and not has_dates(suite):
        wishes = replace(wishes, window=None)
    settled = resolve_settings(options.protocol, suite, wishes, options.prompt)
    asked = read_exercises(
        location,
        settled.suite_settings.window,
        options.max_problems,
        suite=suite,
        trust=options.trust,
        prompt=options.prompt,
        languages=options.languages,
        settings=settled.suite_settings,
    )
    contests = known_contests(options.contests_path, (exercise.id for exercise in asked))
    if contests:
        known = ContestMetadata(contests)
        asked = tuple(replace(one, metadata=known.fill_missing(one.id, one.metadata)) for one in asked)
    return SuiteEvaluation(suite, location, settled, asked, with_packages(sandbox, location), out, contests)


def run(
    job: SuiteEvaluation, model: EvaluatedModel, sampler: "Sampler", seed: int
) -> "tuple[EvaluationResult, list[dict[str, Any]]]":
    """Evaluate, show the progress, and write the result file. Return the evaluation, and the ratings if there are any.

    Raises what evaluate does.
    """
    from curate.dataset.output_folder import write_atomic
    from train.evaluation.codeforces.rating import ratings_as_json
    from train.evaluation.evaluate import evaluate
    from train.evaluation.result_file import result_json, sample_dependencies, verdict_dependencies
    from train.evaluation.sample_store import SampleStore

    sampling = job.settings.sampling
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressBar(" samples"))
        evaluation = evaluate(
            job.exercises,
            partial(sampler.sample, sampling=sampling),
            stack.enter_context(job.sandbox.open()),
            k=job.settings.suite_settings.k,
            seed=seed,
            samples=stack.enter_context(SampleStore(job.samples_path)) if job.samples_path else None,
            settings=sample_dependencies(model.name, sampling, model.prompt, model.engine),
            judged_with=verdict_dependencies(job.sandbox.find_packages()),
            progress=progress,
        )
    ratings = ratings_as_json(evaluation.outcomes, job.contests, seed=seed)
    if job.result_path:
        result = result_json(
            evaluation,
            model=model.name,
            data=job.location,
            suite=job.suite,
            window=job.settings.suite_settings.window,
            sampling=sampling,
            seed=seed,
            exercises=job.exercises,
            prompt=model.prompt,
            engine=model.engine,
            base_url=model.base_url,
            protocol=job.settings.as_table(),
            ratings=ratings,
            prices=model.prices,
        )
        write_atomic(job.result_path, json.dumps(result, indent=1) + "\n")
    return evaluation, ratings


def print_evaluation(
    job: SuiteEvaluation, model: EvaluatedModel, evaluation: "EvaluationResult", ratings: "Sequence[dict[str, Any]]"
) -> None:
    """Print what was evaluated, the table of the result, what became of samples that say little, and the rating."""
    from train.evaluation.results.result import rating_lines, stored_ratings
    from train.evaluation.results.tables import breakdown, format_cost

    click.echo(_heading(job, model, evaluation))
    if line := job.settings.summary_line():
        click.echo(line)
    print_cells(*breakdown(evaluation.outcomes))
    if evaluation.n_truncated or evaluation.n_no_code:
        click.echo(
            f"of {evaluation.n_samples} samples, {evaluation.n_truncated} were cut off "
            f"({evaluation.n_truncated_correct} of them right), and {evaluation.n_no_code} ended without a program"
        )
    if evaluation.n_unscored:
        warn(f"{evaluation.n_unscored} samples have no verdict and are left out, see above")
    if model.prices is not None:
        click.echo(format_cost(evaluation.tokens, model.prices))
    for line in rating_lines(stored_ratings({"ratings": ratings})):
        click.echo(line)


def _heading(job: SuiteEvaluation, model: EvaluatedModel, evaluation: "EvaluationResult") -> str:
    from train.evaluation.results.result import short_model_name, suite_label, tests_source
    from train.evaluation.suites import dataset

    used = job.settings.suite_settings
    days = sorted(problem.metadata.date for problem in evaluation.outcomes if problem.metadata.date is not None)
    held = [f"held {days[0]}..{days[-1]}"] if used.window and days else []
    source = tests_source(evaluation.outcomes)
    name = job.location if job.suite in ("", dataset.NAME) else job.suite
    what = [
        f"{suite_label(name, used.window)}, {len(evaluation.outcomes)} problems x {used.k}",
        *held,
        *([f"tests: {source}"] if source else []),
        f"T {used.temperature:g}",
        f"{used.max_tokens} tokens",
    ]
    return f"{short_model_name(model.name)}: {', '.join(what)}"
