"""Define the command `curate evaluate`."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from curate.commands.options import add_prompt_options, include_option
from curate.errors import CurateError
from sandbox import SandboxError
from sandbox.commands import options
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from sandbox.commands.table import warn
from train.commands.options import (
    FiniteRange,
    engine_option,
    gpu_price_options,
    language,
    print_cells,
    request_options,
    sampling_options,
)
from train.engine_options import EngineOptions, RequestOptions
from train.errors import TrainError
from train.evaluation.judges.extraction import RULES as EXTRACTIONS
from train.evaluation.protocols.forms import FORMS
from train.evaluation.protocols.settings import CHAT, COMPLETE, OWN_FORM, PROTOCOLS
from train.gpu_cost import GpuCost, GpuPrice
from train.sampling.model_check import check_chat_template, check_model

if TYPE_CHECKING:
    from curate.prompt import PromptFormat
    from sandbox import SandboxOptions
    from train.evaluation.codeforces.contests import Contest
    from train.evaluation.codeforces.rating import Rating
    from train.evaluation.evaluate import EvaluationResult
    from train.evaluation.protocols.settings import EvaluationSettings
    from train.evaluation.results.result import Prices
    from train.evaluation.sample_files import SampleFile
    from train.evaluation.sample_store import SampleStore
    from train.evaluation.statistics.outcomes import ProblemOutcomes
    from train.evaluation.suites.suite import Exercise
    from train.sampling.protocol import Sampler, SamplingParams


class TargetTokens(click.ParamType[tuple[int, ...]]):
    """Comma-separated numbers of tokens."""

    name = "token counts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = value.split(",")
        if not all(word.strip().isascii() and word.strip().isdigit() and 0 < int(word) <= 10**7 for word in words):
            self.fail(f"{value!r} is not a list of numbers of tokens such as 1000,2000,4000", param, ctx)
        return tuple(dict.fromkeys(map(int, words)))


@click.command("evaluate")
@click.option(
    "--model", metavar="NAME",
    help="The model: its folder or Hub id, or its name at the server.  [default: with --samples, the name of the file]",
)  # fmt: skip
@click.option(
    "--samples", "samples_file", type=click.Path(exists=True, path_type=Path),
    help="Judge the samples in this file, without a model: EvalPlus's file or folder, LiveCodeBench's file (code_list "
    "or output_list), or lines {task_id, solution}.  [default: sample the model]",
)  # fmt: skip
@click.option(
    "--data", metavar="DATASET",
    help="Folder of a dataset, or a file, folder or Hub id of rows that only one suite can read.  [default: the rows "
    "of --suite]",
)  # fmt: skip
@click.option(
    "--suite", "suites", multiple=True, metavar="NAME[=PATH]",
    help="Evaluation suite: humaneval, humaneval+, mbpp, mbpp+, lcb, codeforces, aime24, aime25, math500, "
    "cruxeval-o, cruxeval-i or dataset. PATH is a file, a folder or a Hub id. Can be given several times.  "
    "[default PATH: the suite on the Hub]",
)  # fmt: skip
@click.option("--problems", type=click.IntRange(min=1), help="Number of problems, chosen reproducibly.  [default: all]")
@include_option
@click.option(
    "--protocol", type=click.Choice(list(PROTOCOLS)),
    help="Published protocol, which sets the prompts and the defaults of the options below.  [default: none]",
)  # fmt: skip
@click.option(
    "--k", type=click.IntRange(min=1),
    help="Number of samples per problem.  [default: 8, or the protocol's, or all of --samples]",
)  # fmt: skip
@click.option(
    "--window", metavar="FROM..TO",
    help="Inclusive range of contest dates: 2024-08-01..2025-01-31; '' for all.  [default: all, or the protocol's]",
)  # fmt: skip
@sampling_options(", or the protocol's")
@click.option(
    "--stop", multiple=True, metavar="TEXT",
    help="A text that ends a completion; '' for none. Can be given several times.  [default: none, or the protocol's]",
)  # fmt: skip
@click.option(
    "--extraction", type=click.Choice(EXTRACTIONS),
    help="Rule that extracts the program from a completion.  [default: curate, or the protocol's]",
)  # fmt: skip
@click.option(
    "--test-seconds", type=FiniteRange(0, 10_000, min_open=True), metavar="SECONDS",
    help="Time limit of each test, or of each call of a function.  [default: the suite's own, or the protocol's]",
)  # fmt: skip
@click.option(
    "--form", type=click.Choice([OWN_FORM, *FORMS]),
    help="Published form of the prompt, or curate for that of this package.  [default: curate, or the protocol's]",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice([CHAT, COMPLETE]),
    help="Send a chat, or let a base model continue the text of a program.  [default: chat]",
)  # fmt: skip
@click.option(
    "--prefill", metavar="TEXT",
    help="Prefill: beginning of the assistant message, which the model continues.  [default: none, or the protocol's]",
)  # fmt: skip
@click.option(
    "--target-tokens", type=TargetTokens(), default=(), metavar="N[,N...]",
    help="Lengths that prompts request, as in INTELLECT-2. Each has a separate evaluation, with the mean error of the "
    "lengths.  [default: prompts request no length]",
)  # fmt: skip
@click.option(
    "--base-url", metavar="URL", help="URL of an OpenAI-compatible server for the model.  [default: run vLLM here]"
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Random seed of the samples."
)
@click.option(
    "--contests", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Parquet file of Codeforces contests for the rating of a model on Codeforces.  [default: the file of `curate "
    "evaluations fetch codeforces`, if it exists]",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="JSON file for the result; with several suites, a folder for one SUITE.json each. Samples are written to "
    "OUT.samples.jsonl as they finish.  [default: only print the result]",
)  # fmt: skip
@add_prompt_options
@engine_option
@request_options
@click.option(
    "--price-prompt", type=FiniteRange(0), metavar="AMOUNT",
    help="Price of a million tokens of prompts, in any currency.  [default: the cost is not computed]",
)  # fmt: skip
@click.option(
    "--price-answer", type=FiniteRange(0), metavar="AMOUNT",
    help="Price of a million tokens of completions, in any currency.  [default: the cost is not computed]",
)  # fmt: skip
@gpu_price_options
@language
@options.add_sandbox_options
def command(
    model: str | None, samples_file: Path | None, data: str | None, suites: tuple[str, ...], problems: int | None,
    include: tuple[str, ...], protocol: str | None, stop: tuple[str, ...], target_tokens: tuple[int, ...],
    base_url: str | None, seed: int,
    contests: Path | None, out: Path | None, prompt: dict[str, Any], engine: dict[str, Any], request: RequestOptions,
    price_prompt: float | None, price_answer: float | None, gpu_price: GpuPrice | None,
    languages: tuple[str, ...], sandbox: "SandboxOptions",
    **overrides: Any,
) -> None:  # fmt: skip
    """Evaluate a model: pass@1 over k samples of each problem, with a 95% confidence interval, and pass@k.

    The table also has a row for each known difficulty, platform and month. With --out, the same command resumes after
    an interruption and reuses existing samples. A failure of one suite does not stop the others.

    With --samples, the command judges the programs in a file, without a model.
    """
    require_extra("data")
    if samples_file is not None:
        _refuse_sampling_options(click.get_current_context())
    elif model is None:
        raise click.UsageError("give --model NAME, or --samples FILE to judge existing samples")
    if (data is None) == (not suites):
        raise click.UsageError("give either --data DATASET or --suite NAME[=PATH]")
    from curate.dataset.needed_packages import add_build_packages
    from curate.prompt import read_prompt
    from curate.trust import TrustPolicy
    from rewards.extract import PYTHON_ONLY
    from train.evaluation.codeforces.contests import ContestMetadata
    from train.evaluation.codeforces.rating import find_contests
    from train.evaluation.exercises import has_dates, read_exercises
    from train.evaluation.protocols.settings import resolve_settings
    from train.evaluation.rescore import build_samples_path
    from train.evaluation.results.result import Prices
    from train.evaluation.sample_files import read_sample_file
    from train.evaluation.sample_store import SampleStore

    kinds = (CurateError, TrainError, SandboxError, OSError)
    to_continue = "the same command continues" if out else "nothing was saved; give --out to resume after interruptions"
    with report_user_errors(*kinds, interrupt_message=to_continue):
        has_price = price_prompt is not None or price_answer is not None
        prices = Prices(price_prompt or 0.0, price_answer or 0.0) if has_price else None
        engine_options = replace(EngineOptions.from_table(engine), request=request)
        file = None if samples_file is None else read_sample_file(samples_file, overrides["extraction"])
        name = model or (file.name if file else "")
        model_source = _ModelSource(name, base_url, engine_options, read_prompt(prompt), seed, prices, gpu_price, file)
        revision = engine_options.vllm.get("revision")
        if base_url is None and file is None:
            engine_options.reject_request_fields()
            check_model(name, revision)
        else:
            engine_options.get_server_concurrency()
        given = {**overrides, "stop": stop or None}
        trust, chosen = TrustPolicy.from_choices(include), languages or PYTHON_ONLY
        jobs = []
        for suite, location, target, path in _locate_suites(data, suites, target_tokens, out):
            # With several suites, the window applies only to suites with dates.
            suite_overrides = given if len(suites) < 2 or has_dates(suite) else {**given, "window": None}
            if file is None:
                settings = resolve_settings(protocol, suite, suite_overrides, model_source.prompt)
            else:
                settings = file.resolve_settings(protocol, suite, suite_overrides)
            exercises = read_exercises(
                location,
                settings.suite_settings.window,
                problems or 0,
                suite=suite,
                trust=trust,
                prompt=model_source.prompt,
                languages=chosen,
                settings=settings.suite_settings,
            )
            found = find_contests(contests, (exercise.id for exercise in exercises))
            if found:
                known = ContestMetadata(found)
                exercises = tuple(replace(one, metadata=known.fill_missing(one.id, one.metadata)) for one in exercises)
            if target:
                exercises = tuple(exercise.request_length(target) for exercise in exercises)
            existing = {} if file is None else file.assign(exercises, overrides["k"])
            sandbox_here = add_build_packages(sandbox, location)
            jobs.append(_Job(suite, location, target, settings, exercises, sandbox_here, path, found, existing))
        is_chat = any(isinstance(exercise.prompt, list) for job in jobs for exercise in job.exercises)
        is_sampled_here = file is None and base_url is None
        chats = is_chat and model_source.prompt.format == "chat"
        if is_sampled_here and chats and "tokenizer" not in engine_options.vllm:
            check_chat_template(name, revision)

        n_succeeded = 0
        lengths: list[tuple[str, int, Sequence[ProblemOutcomes]]] = []
        with ExitStack() as stack:
            stores: list[tuple[_Job, SampleStore | None]] = []
            for job in jobs:  # take the locks on the files before loading the model
                with _warn_of_failure(job, kinds, is_only=len(jobs) == 1):
                    path = job.result_path and build_samples_path(job.result_path)
                    stores.append((job, stack.enter_context(SampleStore(path)) if path else None))
            sampler = None
            if stores and file is None:
                from train.sampling.open_engine import open_sampler  # a slow import, so after all checks

                arguments = model_source.prompt.chat_arguments
                sampler = stack.enter_context(closing(open_sampler(name, base_url, engine_options, arguments)))
            for job, samples in stores:
                with _warn_of_failure(job, kinds, is_only=len(jobs) == 1):
                    evaluation, ratings, gpu_cost = _evaluate_suite(job, model_source, sampler, samples)
                    _print_result(job, model_source, evaluation, ratings, gpu_cost)
                    n_succeeded += evaluation.summary.n_samples > 0
                    if job.target_tokens:
                        lengths.append((job.label, job.target_tokens, evaluation.outcomes))
        if lengths:
            from train.evaluation.results.tables import tabulate_lengths

            print_cells(*tabulate_lengths(lengths))
    sys.exit(0 if n_succeeded == len(jobs) else 1)


@contextmanager
def _warn_of_failure(job: "_Job", kinds: tuple[type[Exception], ...], *, is_only: bool) -> Iterator[None]:
    """Print an error in the block as a warning, unless the suite is the only one."""
    try:
        with report_user_errors(*kinds):
            yield
    except click.ClickException as error:
        if is_only:
            raise
        warn(f"{job.label} was not evaluated: {error.message}")


# Options that apply with --samples; the others are for sampling.
_OPTIONS_WITH_SAMPLES = {
    "samples_file", "model", "data", "suites", "problems", "include", "protocol", "k", "window", "extraction",
    "contests", "out", *options.NAMES,
}  # fmt: skip


def _refuse_sampling_options(context: click.Context) -> None:
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and option.name not in _OPTIONS_WITH_SAMPLES:
            raise click.UsageError(f"{option.opts[0]} is for sampling, but --samples gives existing samples. Omit it.")
    if len(context.params["suites"]) > 1:
        raise click.UsageError("--samples has the samples of one suite. Judge each suite in a separate command.")


def _locate_suites(
    data: str | None, suites: tuple[str, ...], targets: tuple[int, ...], out: Path | None
) -> list[tuple[str, str, int, Path | None]]:
    """Return (name, location, target length or 0, result file) of each evaluation.

    Raises CurateError for a repeated suite, and if --out is a folder instead of a file, or vice versa.
    """
    from train.evaluation.exercises import parse_suite

    locations = [parse_suite(suite) for suite in suites] or [("", str(data))]
    names = [name for name, _ in locations]
    for name in names:
        if names.count(name) > 1:
            raise CurateError(f"--suite {name} is given twice. Evaluate the second suite in a separate command.")
    cells = [(name, location, target) for name, location in locations for target in targets or (0,)]
    if out is None or len(cells) == 1:
        if out is not None and out.is_dir():
            raise CurateError(
                f"--out {out} is a folder, but the result of one suite is a file. Give {out / 'NAME.json'}."
            )
        return [(*cell, out) for cell in cells]
    if out.exists() and not out.is_dir():
        several = "suites" if len(locations) > 1 else "lengths"
        raise CurateError(f"--out {out} is a file, but several {several} need a folder. Choose another --out.")
    return [(*cell, out / f"{_make_label(cell[0], cell[2])}.json") for cell in cells]


def _make_label(suite: str, target_tokens: int) -> str:
    return "-".join(filter(None, (suite, str(target_tokens or ""))))


@dataclass(frozen=True, slots=True)
class _Job:
    """The evaluation of the model on one suite.

    suite          name of the suite; empty with --data
    target_tokens  length that the prompts request; 0: none
    contests       contests for the model's rating; empty for most suites
    existing       existing samples by exercise id, with --samples
    """

    suite: str
    location: str
    target_tokens: int
    settings: "EvaluationSettings"
    exercises: "tuple[Exercise, ...]"
    sandbox: "SandboxOptions"
    result_path: Path | None
    contests: "Sequence[Contest]"
    existing: "Mapping[str, Sequence[str]]"

    @property
    def label(self) -> str:
        return _make_label(self.suite, self.target_tokens)


@dataclass(frozen=True, slots=True)
class _ModelSource:
    """The model that all jobs evaluate, and the source of its samples.

    base_url   URL of the model's server; None: an engine in this process
    gpu_price  number of sampling GPUs, and price of one for an hour; None: unknown
    file       file of existing samples; None: sample the model
    """

    model: str
    base_url: str | None
    engine: EngineOptions
    prompt: "PromptFormat"
    seed: int
    prices: "Prices | None"
    gpu_price: GpuPrice | None
    file: "SampleFile | None" = None

    def build_model_table(self) -> dict[str, Any]:
        from train.evaluation.result_metadata import collect_model_metadata

        if self.file is not None:
            return {"name": self.model, "base_url": None}
        return collect_model_metadata(self.model, self.base_url, self.engine.vllm.get("revision"))

    def build_sampling_table(self, sampling: "SamplingParams") -> dict[str, Any]:
        return self.file.as_table() if self.file else {**sampling.as_table(), **self.engine.request.as_table()}


def _evaluate_suite(
    job: _Job, model_source: _ModelSource, sampler: "Sampler | None", samples: "SampleStore | None"
) -> "tuple[EvaluationResult, tuple[Rating, ...], GpuCost | None]":
    """Evaluate with a progress bar, and write the result file.

    sampler: None to judge the job's existing samples
    """
    from train.evaluation import result_metadata as metadata
    from train.evaluation.codeforces.rating import rate_evaluation
    from train.evaluation.evaluate import evaluate, judge_completions
    from train.evaluation.results.result import Result

    out, sampling = job.result_path, job.settings.sampling
    start_time = time.monotonic()
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressBar(" samples"))
        box = stack.enter_context(job.sandbox.open())
        verdict_inputs = metadata.list_verdict_dependencies(job.sandbox.find_packages())
        if sampler is None:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            samples = samples or stack.enter_context(SampleStore(folder / "samples.jsonl"))
            evaluation = judge_completions(
                job.exercises, job.existing, box, samples, verdict_inputs=verdict_inputs, progress=progress
            )
        else:
            evaluation = evaluate(
                job.exercises,
                partial(sampler.sample, sampling=sampling),
                box,
                k=job.settings.suite_settings.k,
                seed=model_source.seed,
                samples=samples,
                settings=metadata.list_sample_dependencies(
                    model_source.model, sampling, model_source.prompt, model_source.engine
                ),
                verdict_inputs=verdict_inputs,
                progress=progress,
            )
    seconds, price = time.monotonic() - start_time, model_source.gpu_price
    gpu_cost = None if price is None else GpuCost(price, seconds, evaluation.n_sampled, evaluation.k)
    ratings = rate_evaluation(evaluation.outcomes, job.contests, seed=model_source.seed)
    if out:
        window = job.settings.suite_settings.window
        Result(
            model_source.build_model_table(),
            metadata.collect_suite_metadata(job.suite, job.location, window, job.exercises, evaluation.outcomes),
            {
                "k": evaluation.k,
                **model_source.build_sampling_table(sampling),
                **({"target_tokens": job.target_tokens} if job.target_tokens else {}),
            },
            model_source.prompt.as_table(),
            model_source.engine.to_vllm_options(),
            model_source.seed,
            evaluation.outcomes,
            evaluation.tokens,
            languages=metadata.list_languages(job.exercises),
            protocol=job.settings.as_table(),
            ratings=ratings,
            prices=model_source.prices,
            gpu_cost=gpu_cost,
        ).write(out)
    return evaluation, ratings, gpu_cost


def _print_result(
    job: _Job, model_source: _ModelSource, evaluation: "EvaluationResult", ratings: "Sequence[Rating]",
    gpu_cost: GpuCost | None,
) -> None:  # fmt: skip
    from train.evaluation.results.tables import format_cost, tabulate_strata

    click.echo(_format_heading(job, model_source, evaluation))
    if (line := job.settings.format_summary_line()) and model_source.file is None:
        click.echo(line)
    print_cells(*tabulate_strata(evaluation.outcomes))
    summary = evaluation.summary
    if summary.n_truncated or evaluation.n_no_code:
        click.echo(
            f"of {summary.n_samples} samples, {summary.n_truncated} were truncated "
            f"({summary.n_truncated_correct} of them correct), and {evaluation.n_no_code} ended without a program"
        )
    if summary.n_no_verdict:
        warn(f"{summary.n_no_verdict} samples have no verdict and are not counted; see the warnings above")
    if model_source.prices is not None:
        click.echo(format_cost(evaluation.tokens, model_source.prices))
    if gpu_cost is not None:
        click.echo(f"GPU cost of this call: {gpu_cost}")
    for line in (line for rating in ratings for line in rating.lines):
        click.echo(line)


def _format_heading(job: _Job, model_source: _ModelSource, evaluation: "EvaluationResult") -> str:
    from train.evaluation.results.result import format_suite_label, shorten_location, shorten_model_name
    from train.evaluation.statistics.outcomes import describe_tests_source
    from train.evaluation.suites import dataset

    used, outcomes = job.settings.suite_settings, evaluation.outcomes
    days = sorted(problem.metadata.date for problem in outcomes if problem.metadata.date is not None)
    source = describe_tests_source(outcomes)
    name = job.location if job.suite in ("", dataset.NAME) else job.suite
    fewest, most = (pick(len(problem.correct) for problem in outcomes) for pick in (min, max))
    sampling = f"T {used.temperature:g}, {used.max_tokens} tokens"
    sampling += f", target {job.target_tokens}" if job.target_tokens else ""
    parts = (
        f"{shorten_model_name(model_source.model)}: {format_suite_label(shorten_location(name), used.window)}",
        f"{len(outcomes)} problems x {most if fewest == most else f'{fewest}-{most}'}",
        f"held {days[0]}..{days[-1]}" if used.window and days else "",
        f"tests: {source}" if source else "",
        f"samples of {model_source.file.path}" if model_source.file else sampling,
    )
    return ", ".join(filter(None, parts))
