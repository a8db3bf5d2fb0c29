"""Define the command `curate difficulty`."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from curate.commands.options import add_prompt_options, include_option
from curate.commands.printing import print_hashes
from curate.errors import CurateError
from sandbox import SandboxError
from sandbox.commands import options
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from sandbox.commands.table import TableColumn, TableRow, print_table, warn
from train.commands.options import engine_option, gpu_price_options, language, request_options, sampling_options
from train.engine_options import DEFAULT_REQUEST_OPTIONS, REQUEST, EngineOptions, RequestOptions
from train.errors import TrainError
from train.gpu_cost import GpuCost, GpuPrice
from train.sampling.model_check import check_model

if TYPE_CHECKING:
    from sandbox import SandboxOptions
    from train.evaluation.difficulty import DifficultySettings
    from train.evaluation.evaluate import SampleFunction


@click.command("difficulty")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option(
    "--model", "models", multiple=True, metavar="NAME",
    help="Folder or Hub id of a model to sample, or its name at the server. Can be given several times.  "
    "[default: the models with samples]",
)  # fmt: skip
@click.option(
    "--base-url", metavar="URL", help="URL of an OpenAI-compatible server for the model.  [default: run vLLM here]"
)
@click.option("--k", type=click.IntRange(min=1), help="Number of attempts k in pass@k.  [default: 8]")
@click.option("--n", type=click.IntRange(min=1), help="Number of samples per problem.  [default: k]")
@sampling_options()
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Random seed of the samples.  [default: 0]")
@click.option("--resample", is_flag=True, help="Discard the existing samples of the --model models, and sample again.")
@include_option
@add_prompt_options
@engine_option
@request_options
@gpu_price_options
@language
@options.add_sandbox_options
@click.option(
    "--solve-rate", metavar="MIN:MAX",
    help="Copy the problems whose share of correct samples is in this inclusive band to --out: 0.125:0.5, or "
    "0.125: without a maximum.  [default: no copy]",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for the problems of --solve-rate.  [default: no copy]"
)
@click.option("--overwrite", is_flag=True, help="Replace another dataset in the folder --out.")
def command(
    dataset: Path, models: tuple[str, ...], base_url: str | None, resample: bool, include: tuple[str, ...],
    prompt: dict[str, Any], engine: dict[str, Any], request: RequestOptions, gpu_price: GpuPrice | None,
    languages: tuple[str, ...], sandbox: "SandboxOptions", solve_rate: str | None, out: Path | None,
    overwrite: bool, **settings: Any,
) -> None:  # fmt: skip
    """Measure the solve rates of models on the problems of DATASET, and select problems by solve rate.

    The command writes counts to difficulty/ in DATASET. It reuses a model's existing samples; omitted sampling options
    keep their values. After an interruption, the same command continues. A truncated completion is judged by its
    program, if it has one, as in training.

    Without --model, --solve-rate uses all sampled models, and a problem must be in the band for each of them.
    """
    require_extra("data")
    from curate.dataset.location import require_local_folder
    from curate.difficulty import table
    from curate.difficulty.band import SolveRateBand, filter_by_solve_rate

    if not models and solve_rate is None:
        raise click.UsageError("give a --model to sample, a --solve-rate to filter by, or both")
    if gpu_price is not None and not models:
        raise click.UsageError("--price-gpu-hour is for sampling. Give a --model, or omit the price.")
    if (solve_rate is None) != (out is None):
        raise click.UsageError(
            "--solve-rate needs --out, and --out needs --solve-rate. Give both: a band, and a folder for its problems"
        )
    to_continue = f"the samples are in {dataset}; the same command continues"
    with report_user_errors(CurateError, TrainError, SandboxError, OSError, interrupt_message=to_continue):
        dataset = require_local_folder(dataset, "curate difficulty")
        band = None if solve_rate is None else SolveRateBand.parse(solve_rate)
        chosen = {name: value for name, value in settings.items() if value is not None}
        if languages:
            chosen["languages"] = languages
        sample_models(
            dataset, models, chosen, base_url, include, prompt, engine, sandbox, request=request, resample=resample,
            gpu_price=gpu_price,
        )  # fmt: skip
        if rows := table.read(dataset):
            _print_solve_rates(rows, models)
        if band is None or out is None:
            return
        manifest = filter_by_solve_rate(dataset, out, band, models, overwrite=overwrite)
    click.echo(f"\n{manifest.n_kept} problems in {out}; the others are in the dataset config `rejected`")
    if manifest.solve_rate is not None and manifest.solve_rate.warning:
        warn(manifest.solve_rate.warning)
    print_hashes(manifest)
    sys.exit(0 if manifest.n_kept else 1)


def sample_models(
    dataset: Path, models: Sequence[str], overrides: dict[str, Any], base_url: str | None, include: Sequence[str],
    prompt: Mapping[str, Any], engine: Mapping[str, Any], sandbox: "SandboxOptions", *,
    request: RequestOptions = DEFAULT_REQUEST_OPTIONS, resample: bool = False, gpu_price: GpuPrice | None = None,
) -> None:  # fmt: skip
    """Sample models on a dataset, and show progress and warnings. Recipes call this function, too.

    overrides       the user's sampling settings
    prompt, engine  tables [prompt] and [engine]
    gpu_price       price of the GPUs that sample; None: do not print the cost

    Raises CurateError, TrainError or SandboxError.
    """
    from curate.dataset.dataset import Dataset
    from curate.dataset.needed_packages import add_build_packages
    from curate.difficulty import table
    from curate.prompt import read_prompt
    from curate.trust import TrustPolicy, format_exclusions
    from train.evaluation.difficulty import measure_difficulty

    if prompt:
        overrides = {**overrides, "prompt": prompt}
    read_prompt(prompt)  # validate the prompt format before the dataset is read
    engine_options = replace(EngineOptions.from_table(engine), request=request)
    if sample_affecting := engine_options.select_sample_affecting_options():
        overrides = {**overrides, "engine": sample_affecting}
    if base_url is not None:
        engine_options.get_server_concurrency()
    else:
        engine_options.reject_request_fields()
        Dataset(dataset).require_problems()
        sampled = {row["model"] for row in table.read(dataset)}
        for model in models:
            if model not in sampled:  # models with samples need not exist any longer
                check_model(model, engine_options.vllm.get("revision"))
    if models:
        sandbox = add_build_packages(sandbox, dataset)
    packages, trust = sandbox.find_packages(), TrustPolicy.from_choices(include)
    with ProgressBar(" samples") as progress:
        for model in models:
            start_time = time.monotonic()
            measured = measure_difficulty(
                dataset,
                model,
                overrides,
                partial(_open_sample_function, base_url=base_url, engine=engine_options),
                sandbox.open,
                resample=resample,
                packages=packages,
                trust=trust,
                progress=progress,
            )
            progress.close()
            if gpu_price is not None:
                seconds = time.monotonic() - start_time
                spent = GpuCost(gpu_price, seconds, measured.n_sampled, measured.settings.n)
                click.echo(f"{model}: GPU cost of this call: {spent}")
            for line in format_exclusions(measured.exclusions):
                click.echo(f"{model}: {line}", err=True)
            for number, event in ((measured.n_unjudged, "could not be judged"), (measured.n_refused, "were refused")):
                if number:
                    warn(f"{model}: {number} samples {event}; the same command tries again")


@contextmanager
def _open_sample_function(
    settings: "DifficultySettings", base_url: str | None, engine: EngineOptions
) -> "Iterator[SampleFunction]":
    from train.sampling.open_engine import open_sampler
    from train.sampling.protocol import SamplingParams

    sampling = SamplingParams(settings.temperature, settings.top_p, settings.max_tokens)
    # Omitted engine options keep the values of existing samples. With a server, only the request fields apply.
    engine |= {name: value for name, value in settings.engine.items() if base_url is None or name == REQUEST}
    with closing(open_sampler(settings.model, base_url, engine, settings.prompt.chat_arguments)) as sampler:
        yield partial(sampler.sample, sampling=sampling)


def _print_solve_rates(rows: list[dict[str, Any]], models: Sequence[str]) -> None:
    widths = {"model": 40, "problems": 9, "samples": 9, "pass@1": 8, "pass@k": 8, "truncated": 11, "no code": 9}
    table = []
    for model in models or sorted({row["model"] for row in rows}):
        known = [row for row in rows if row["model"] == model and row["n"]]
        estimates = ([row[name] for row in known if row[name] is not None] for name in ("pass_at_1", "pass_at_k"))
        means = [f"{fmean(values):.3f}" if values else "-" for values in estimates]
        n, n_truncated, n_no_code = (sum(row[name] for row in known) for name in ("n", "n_truncated", "n_no_code"))
        cells = [model, str(len(known)), str(n), *means, str(n_truncated), str(n_no_code)]
        counts = Counter((row["n_correct"], row["n"]) for row in known)
        note = ", ".join(f"{correct} of {n}: {number}" for (correct, n), number in sorted(counts.items()))
        table.append(TableRow(cells, note))
    print_table([TableColumn(name, width, is_text=name == "model") for name, width in widths.items()], table)
