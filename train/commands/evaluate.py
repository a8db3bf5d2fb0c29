"""Define the command `curate evaluate`: each suite is read before the model is loaded, then evaluated and printed."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.commands.include_option import include_option
from curate.commands.prompt_options import prompt_options
from curate.errors import CurateError
from sandbox import SandboxError
from sandbox.commands import options
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from sandbox.commands.table import warn
from train.commands.options import FiniteRange, engine_option, language, print_cells, sampling_options
from train.engine_options import EngineOptions
from train.errors import TrainError
from train.evaluation.judges.extraction import RULES as EXTRACTIONS
from train.evaluation.protocols.forms import FORMS
from train.evaluation.protocols.settings import CHAT, COMPLETE, OWN_FORM, PROTOCOLS
from train.sampling.model_check import check_chat_template, check_model

if TYPE_CHECKING:
    from curate.prompt import PromptFormat
    from sandbox import SandboxOptions
    from train.evaluation.codeforces.contests import Contest
    from train.evaluation.codeforces.rating import Rating
    from train.evaluation.evaluate import EvaluationResult
    from train.evaluation.protocols.settings import EvaluationSettings
    from train.evaluation.results.result import Prices
    from train.evaluation.suites.suite import Exercise
    from train.sampling.protocol import Sampler


@click.command("evaluate")
@click.option(
    "--model", required=True, metavar="NAME", help="The model: its folder or Hub id, or its name at the server."
)
@click.option(
    "--data", metavar="DATASET",
    help="Folder of a dataset, or a file, folder or Hub id of rows that only one suite can read.  [default: what "
    "--suite names]",
)  # fmt: skip
@click.option(
    "--suite", "suites", multiple=True, metavar="NAME[=PATH]",
    help="Evaluation suite: humaneval, humaneval+, mbpp, mbpp+, lcb, codeforces, aime24, aime25, math500, "
    "cruxeval-o, cruxeval-i or dataset. PATH is a file, a folder or a Hub id. Can be given several times.  "
    "[default PATH: the suite on the Hub]",
)  # fmt: skip
@click.option(
    "--problems", type=click.IntRange(min=1), help="Use this many problems, the same ones each time.  [default: all]"
)
@include_option
@click.option(
    "--protocol", type=click.Choice(list(PROTOCOLS)),
    help="Measure as others did: their prompts, and their values of the options below, unless given.  [default: none]",
)  # fmt: skip
@click.option("--k", type=click.IntRange(min=1), help="Number of samples per problem.  [default: 8, or the protocol's]")
@click.option(
    "--window", metavar="FROM..TO",
    help="Use only contests held in this window, both days included: 2024-08-01..2025-01-31; '' for all.  "
    "[default: all, or the protocol's]",
)  # fmt: skip
@sampling_options(", or the protocol's")
@click.option(
    "--stop", multiple=True, metavar="TEXT",
    help="A text that ends an answer; '' for none. Can be given several times.  [default: none, or the protocol's]",
)  # fmt: skip
@click.option(
    "--extraction", type=click.Choice(EXTRACTIONS),
    help="How the program is found in an answer.  [default: curate, or the protocol's]",
)  # fmt: skip
@click.option(
    "--test-seconds", type=FiniteRange(0, 10_000, min_open=True), metavar="SECONDS",
    help="Time limit of each test, or of each call of a function.  [default: the suite's own, or the protocol's]",
)  # fmt: skip
@click.option(
    "--form", type=click.Choice([OWN_FORM, *FORMS]),
    help="Official form of the prompt, or curate for our own.  [default: curate, or the protocol's]",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice([CHAT, COMPLETE]),
    help="Ask in a chat, or let a base model continue the text of a program.  [default: chat]",
)  # fmt: skip
@click.option(
    "--prefill", metavar="TEXT",
    help="Beginning of the model's own message, which it continues.  [default: none, or the protocol's]",
)  # fmt: skip
@click.option(
    "--base-url", metavar="URL", help="Ask an OpenAI-compatible server at this URL.  [default: run vLLM here]"
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Random seed of the samples."
)
@click.option(
    "--contests", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Parquet file of Codeforces contests for the rating of a model on Codeforces.  [default: where `curate "
    "evaluations fetch codeforces` writes it, if it is there]",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="JSON file for the numbers and the outcomes of each problem. Samples go to OUT.samples.jsonl as they arrive. "
    "With several suites, a folder, in which each suite has its SUITE.json.  [default: only print the numbers]",
)  # fmt: skip
@prompt_options
@engine_option
@click.option(
    "--price-prompt", type=FiniteRange(0), metavar="AMOUNT",
    help="Price of a million tokens of prompts, in any currency.  [default: the cost is not computed]",
)  # fmt: skip
@click.option(
    "--price-answer", type=FiniteRange(0), metavar="AMOUNT",
    help="Price of a million tokens of answers, in any currency.  [default: the cost is not computed]",
)  # fmt: skip
@language
@options.sandbox_options
def command(
    model: str, data: str | None, suites: tuple[str, ...], problems: int | None, include: tuple[str, ...],
    protocol: str | None, stop: tuple[str, ...], base_url: str | None, seed: int, contests: Path | None,
    out: Path | None, prompt: dict[str, Any], engine: dict[str, Any], price_prompt: float | None,
    price_answer: float | None, languages: tuple[str, ...], sandbox: "SandboxOptions", **overrides: Any,
) -> None:  # fmt: skip
    """Evaluate a model: pass@1 over k samples of each problem, with a 95% confidence interval, and pass@k.

    Below the numbers of all problems are those of each difficulty, platform and month, where these are known. With
    --out, the same command continues after an interruption and samples nothing twice. Of several suites, one that fails
    does not keep the others from being evaluated.
    """
    require_extra("data")
    if (data is None) == (not suites):
        raise click.UsageError("give either --data DATASET or --suite NAME[=PATH]")
    from curate.dataset.needed_packages import with_packages
    from curate.prompt import read_prompt
    from curate.trust import TrustPolicy
    from rewards.extract import PYTHON_ONLY
    from train.evaluation.codeforces.contests import ContestMetadata
    from train.evaluation.codeforces.rating import known_contests
    from train.evaluation.exercises import has_dates, read_exercises
    from train.evaluation.protocols.settings import resolve_settings
    from train.evaluation.results.result import Prices

    kinds = (CurateError, TrainError, SandboxError, OSError)
    to_continue = f"the samples are beside {out}; the same command continues" if out else "give --out to continue"
    with report_user_errors(*kinds, interrupt_message=to_continue):
        has_price = price_prompt is not None or price_answer is not None
        prices = Prices(price_prompt or 0.0, price_answer or 0.0) if has_price else None
        engine_options = EngineOptions.from_table(engine)
        sampled = _SampledModel(model, base_url, engine_options, read_prompt(prompt), seed, prices)
        revision = engine_options.vllm.get("revision")
        if base_url is None:
            check_model(model, revision)
        else:
            engine_options.server_concurrency()
        given = {**overrides, "stop": stop or None}
        trust, chosen = TrustPolicy.from_choices(include), languages or PYTHON_ONLY
        jobs = []
        for suite, location, path in _places(data, suites, out):
            # With several suites, a window is for those that have dates.
            asked = given if len(suites) < 2 or has_dates(suite) else {**given, "window": None}
            settings = resolve_settings(protocol, suite, asked, sampled.prompt)
            exercises = read_exercises(
                location,
                settings.suite_settings.window,
                problems or 0,
                suite=suite,
                trust=trust,
                prompt=sampled.prompt,
                languages=chosen,
                settings=settings.suite_settings,
            )
            found = known_contests(contests, (exercise.id for exercise in exercises))
            if found:
                known = ContestMetadata(found)
                exercises = tuple(replace(one, metadata=known.fill_missing(one.id, one.metadata)) for one in exercises)
            jobs.append(_Job(suite, location, settings, exercises, with_packages(sandbox, location), path, found))
        is_chat = any(isinstance(exercise.prompt, list) for job in jobs for exercise in job.exercises)
        if is_chat and base_url is None and "tokenizer" not in engine_options.vllm:
            check_chat_template(model, revision)
        from train.sampling.open_engine import open_sampler  # takes seconds, so mistakes are explained before

        succeeded = []
        with closing(open_sampler(model, base_url, engine_options, sampled.prompt.template_arguments)) as sampler:
            for job in jobs:
                try:
                    with report_user_errors(*kinds):
                        evaluation, ratings = _evaluate(job, sampled, sampler)
                except click.ClickException as error:
                    if len(jobs) == 1:
                        raise
                    warn(f"{job.suite} was not evaluated: {error.message}")
                    succeeded.append(False)
                else:
                    _print(job, sampled, evaluation, ratings)
                    succeeded.append(evaluation.summary.n_samples > 0)
    sys.exit(0 if all(succeeded) else 1)


def _places(data: str | None, suites: tuple[str, ...], out: Path | None) -> list[tuple[str, str, Path | None]]:
    """Return the name, the location and the result file of each suite. Raises CurateError."""
    from train.evaluation.exercises import parse_suite

    places = [parse_suite(suite) for suite in suites] or [("", str(data))]
    names = [name for name, _ in places]
    for name in names:
        if names.count(name) > 1:
            raise CurateError(f"--suite {name} is given twice. Evaluate the second one by a command of its own.")
    if out is None or len(places) == 1:
        if out is not None and out.is_dir():
            raise CurateError(f"--out {out} is a folder; the result of one suite is a file. Give {out / 'NAME.json'}.")
        return [(*place, out) for place in places]
    if out.exists() and not out.is_dir():
        raise CurateError(f"--out {out} is a file; several suites need a folder. Choose another --out.")
    return [(name, location, out / f"{name}.json") for name, location in places]


@dataclass(frozen=True, slots=True)
class _Job:
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
    contests: "Sequence[Contest]"


@dataclass(frozen=True, slots=True)
class _SampledModel:
    """The model of all jobs, and how it is sampled.

    base_url  address of a server; None: the model is run here
    prices    of the model's tokens; None: unknown
    """

    model: str
    base_url: str | None
    engine: EngineOptions
    prompt: "PromptFormat"
    seed: int
    prices: "Prices | None"


def _evaluate(job: _Job, sampled: _SampledModel, sampler: "Sampler") -> "tuple[EvaluationResult, tuple[Rating, ...]]":
    """Evaluate, show the progress, and write the result file. Return the evaluation and the ratings, if any."""
    from train.evaluation import result_metadata as metadata
    from train.evaluation.codeforces.rating import model_ratings
    from train.evaluation.evaluate import evaluate
    from train.evaluation.rescore import samples_path
    from train.evaluation.results.result import Result
    from train.evaluation.sample_store import SampleStore

    out, sampling = job.result_path, job.settings.sampling
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressBar(" samples"))
        evaluation = evaluate(
            job.exercises,
            partial(sampler.sample, sampling=sampling),
            stack.enter_context(job.sandbox.open()),
            k=job.settings.suite_settings.k,
            seed=sampled.seed,
            samples=stack.enter_context(SampleStore(samples_path(out))) if out else None,
            settings=metadata.sample_dependencies(sampled.model, sampling, sampled.prompt, sampled.engine),
            judged_with=metadata.verdict_dependencies(job.sandbox.find_packages()),
            progress=progress,
        )
    ratings = model_ratings(evaluation.outcomes, job.contests, seed=sampled.seed)
    if out:
        window = job.settings.suite_settings.window
        Result(
            metadata.model_metadata(sampled.model, sampled.base_url, sampled.engine.vllm.get("revision")),
            metadata.suite_metadata(job.suite, job.location, window, job.exercises, evaluation.outcomes),
            {"k": evaluation.k, **sampling.as_table()},
            sampled.prompt.as_table(),
            sampled.engine.for_vllm(),
            sampled.seed,
            evaluation.outcomes,
            evaluation.tokens,
            languages=metadata.answer_languages(job.exercises),
            protocol=job.settings.as_table(),
            ratings=ratings,
            prices=sampled.prices,
        ).write(out)
    return evaluation, ratings


def _print(job: _Job, sampled: _SampledModel, evaluation: "EvaluationResult", ratings: "Sequence[Rating]") -> None:
    """Print what was evaluated, the table of the result, what became of samples that say little, and the rating."""
    from train.evaluation.results.tables import breakdown, format_cost

    click.echo(_heading(job, sampled.model, evaluation))
    if line := job.settings.summary_line():
        click.echo(line)
    print_cells(*breakdown(evaluation.outcomes))
    found = evaluation.summary
    if found.n_truncated or evaluation.n_no_code:
        click.echo(
            f"of {found.n_samples} samples, {found.n_truncated} were cut off "
            f"({found.n_truncated_correct} of them right), and {evaluation.n_no_code} ended without a program"
        )
    if found.n_no_verdict:
        warn(f"{found.n_no_verdict} samples have no verdict and are left out, see above")
    if sampled.prices is not None:
        click.echo(format_cost(evaluation.tokens, sampled.prices))
    for line in (line for rating in ratings for line in rating.lines):
        click.echo(line)


def _heading(job: _Job, model: str, evaluation: "EvaluationResult") -> str:
    from train.evaluation.results.result import short_model_name, suite_label, suite_name
    from train.evaluation.statistics.outcomes import tests_source
    from train.evaluation.suites import dataset

    used, outcomes = job.settings.suite_settings, evaluation.outcomes
    days = sorted(problem.metadata.date for problem in outcomes if problem.metadata.date is not None)
    source = tests_source(outcomes)
    name = job.location if job.suite in ("", dataset.NAME) else job.suite
    what = (
        f"{short_model_name(model)}: {suite_label(suite_name(name), used.window)}",
        f"{len(outcomes)} problems x {used.k}",
        f"held {days[0]}..{days[-1]}" if used.window and days else "",
        f"tests: {source}" if source else "",
        f"T {used.temperature:g}",
        f"{used.max_tokens} tokens",
    )
    return ", ".join(filter(None, what))
