"""Define the command `curate evaluate`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.commands.include_option import include_option
from curate.commands.prompt_options import prompt_options
from sandbox.commands import options
from sandbox.commands.console import report_user_errors, require_extra
from sandbox.commands.table import warn
from train.commands.options import engine_option, language, price_options, protocol_options
from train.commands.suite_evaluation import EvaluatedModel, EvaluationOptions, prepare, print_evaluation, run

if TYPE_CHECKING:
    from sandbox import SandboxOptions
    from train.evaluation.protocols.settings import ProtocolOverrides
    from train.evaluation.results.result import Prices


@click.command("evaluate")
@click.option(
    "--model", required=True, metavar="NAME", help="The model: its folder or Hub id, or its name at the server."
)
@click.option(
    "--data",
    metavar="DATASET",
    help="Folder of a dataset, or a file, folder or Hub id of rows that only one suite can read.  [default: what "
    "--suite names]",
)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="NAME[=PATH]",
    help="Evaluation suite: humaneval, humaneval+, mbpp, mbpp+, lcb, codeforces, aime24, aime25, math500, "
    "cruxeval-o, cruxeval-i or dataset. PATH is a file, a folder or a Hub id. Can be given several times.  "
    "[default PATH: the suite on the Hub]",
)
@click.option(
    "--problems", type=click.IntRange(min=1), help="Use this many problems, the same ones each time.  [default: all]"
)
@include_option
@protocol_options
@click.option(
    "--base-url", metavar="URL", help="Ask an OpenAI-compatible server at this URL.  [default: run vLLM here]"
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Random seed of the samples."
)
@click.option(
    "--contests",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Parquet file of Codeforces contests for the rating of a model on Codeforces.  [default: where `curate "
    "evaluations fetch codeforces` writes it, if it is there]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="JSON file for the numbers and the outcomes of each problem. Samples go to OUT.samples.jsonl as they arrive. "
    "With several suites, a folder, in which each suite has its SUITE.json.  [default: only print the numbers]",
)
@prompt_options
@engine_option
@price_options
@language
@options.sandbox_options
def command(
    model: str,
    data: str | None,
    suites: tuple[str, ...],
    problems: int | None,
    include: tuple[str, ...],
    protocol: str | None,
    wishes: "ProtocolOverrides",
    base_url: str | None,
    seed: int,
    contests: Path | None,
    out: Path | None,
    prompt: dict[str, Any],
    engine: dict[str, Any],
    prices: "Prices | None",
    languages: tuple[str, ...],
    sandbox: "SandboxOptions",
) -> None:
    """Evaluate a model: pass@1 over k samples of each problem, with a 95% confidence interval, and pass@k.

    Below the numbers of all problems are those of each difficulty, platform and month, where these are known. With
    --out, the same command continues after an interruption and samples nothing twice. Of several suites, one that fails
    does not keep the others from being evaluated.
    """
    require_extra("data")
    if (data is None) == (not suites):
        raise click.UsageError("give either --data DATASET or --suite NAME[=PATH]")
    from curate.errors import CurateError
    from curate.prompt import read_prompt
    from curate.trust import TrustPolicy
    from rewards.extract import PYTHON_ONLY
    from sandbox import SandboxError
    from train.engine_options import EngineOptions
    from train.errors import TrainError

    kinds = (CurateError, TrainError, SandboxError, OSError)
    with report_user_errors(*kinds, interrupt_message=_to_continue(out)):
        form = read_prompt(prompt)
        asked = EvaluatedModel(model, base_url, EngineOptions.from_table(engine), form, prices)
        trust, spoken = TrustPolicy.from_choices(include), languages or PYTHON_ONLY
        terms = EvaluationOptions(
            protocol, wishes, form, problems or 0, trust, spoken, contests, has_several_suites=len(suites) > 1
        )
        asked.check()
        jobs = [prepare(*place, terms, sandbox) for place in _places(data, suites, out)]
        asked.check_chat(exercise for job in jobs for exercise in job.exercises)
        succeeded = []
        with asked.open() as sampler:
            for job in jobs:
                try:
                    with report_user_errors(*kinds):
                        evaluation, ratings = run(job, asked, sampler, seed)
                except click.ClickException as error:
                    if len(jobs) == 1:
                        raise
                    warn(f"{job.suite} was not evaluated: {error.message}")
                    succeeded.append(False)
                else:
                    print_evaluation(job, asked, evaluation, ratings)
                    succeeded.append(evaluation.summary.n_samples > 0)
    sys.exit(0 if all(succeeded) else 1)


def _places(data: str | None, suites: tuple[str, ...], out: Path | None) -> list[tuple[str, str, Path | None]]:
    """Return the name, the location and the result file of each suite. Raises CurateError."""
    from curate.errors import CurateError
    from train.evaluation.suites.registry import parse_suite

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


def _to_continue(out: Path | None) -> str:
    return f"the samples are beside {out}; the same command continues" if out else "give --out to continue"
