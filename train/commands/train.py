"""Define the commands of training runs: `curate train`, `plot`, and `config`, which prints a configuration file."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.commands.options import add_prompt_options, include_option
from curate.errors import CurateError
from sandbox import SandboxError
from sandbox.commands import options
from sandbox.commands.console import report_user_errors, require_extra
from train.commands.options import (
    CommandWithConfigKeys,
    ConfigSource,
    config_options,
    engine_option,
    gpu_hour_option,
    report_interruption,
)
from train.errors import ConfigError, NoRunError, TrainError, suggest_remedy
from train.gpu_cost import GpuCost, GpuPrice

if TYPE_CHECKING:
    from train.config import Config
    from train.run.memory import Machines

# Patterns of the metrics in the line for each step, and their labels.
_SHOWN_METRICS = (
    ("reward", "reward"),
    ("completions/mean_length", "tokens"),
    ("completions/clipped_ratio", "cut"),
    ("entropy", "entropy"),
    ("eval/pass@1", "pass@1"),
    (r"eval/[^/]+/pass@1", ""),  # with several suites
    ("groups/age_mean", "stale"),  # in asynchronous runs
    ("step_time", "s"),
)


@click.command("train", cls=CommandWithConfigKeys)
@config_options
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="Folder of the run.  [default: runs/ and the name of CONFIG, or of the preset if there is no CONFIG]",
)  # fmt: skip
@include_option
@add_prompt_options
@engine_option
@click.option("--resume", is_flag=True, help="Continue from the newest checkpoint in the folder, if any.")
@click.option("--overwrite", is_flag=True, help="Delete the run in the folder, and start a new one.")
@click.option(
    "--replay", is_flag=True,
    help="CONFIG is the folder of a finished asynchronous run: train it again from its journal, without engines and "
    "rewards, and compare the weights.  [default for --out: that folder's name and -replay]",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the plan and its memory use; train nothing.")
@click.option(
    "--gpus", type=click.IntRange(0),
    help="Fit the run to this number of GPUs, up to 8 per machine, or to CPUs if 0: choose the engines' GPUs and "
    "memory if CONFIG does not set them.  [default: the values of CONFIG and the preset]",
)  # fmt: skip
@click.option("--gpu-gb", type=float, help="Memory of a GPU in GB.  [default: that of the GPU, or 80 with --dry-run]")
@click.option(
    "--host-gb", type=float,
    help="Memory of each machine in GB.  [default: that of the machine; unchecked with --dry-run]",
)  # fmt: skip
@gpu_hour_option
@options.add_sandbox_overrides
def command(
    config: ConfigSource, out: Path | None, include: tuple[str, ...], prompt: dict[str, Any], engine: dict[str, Any],
    resume: bool, overwrite: bool, replay: bool, dry_run: bool, gpus: int | None, gpu_gb: float | None,
    host_gb: float | None, price_gpu_hour: float | None, sandbox: dict[str, Any],
) -> None:  # fmt: skip
    """Train a model on a dataset with GRPO+.

    Without CONFIG: curate train --preset deepcoder-16k --model MODEL --data DATASET.

    CONFIG is a TOML file: a preset, the model, the dataset, and values that differ from the preset. Its keys are listed
    below; `curate config train --preset NAME` prints a file with all of them. Options override the file: those of the
    prompt its section [prompt], --engine its section [engine], and those of the sandbox its section [sandbox]. The run
    can be killed at any moment: the same command with --resume continues it. On several GPUs: torchrun
    --nproc-per-node 8 --no-python curate train CONFIG.
    """
    require_extra("train")
    from train.run.folder import open_run

    recorded = config.path if replay else None
    if replay and (recorded is None or config.preset or config.model or config.dataset):
        raise click.UsageError(
            "--replay takes the configuration from the folder of a run. Give that folder, without --preset, --model "
            "and --data."
        )
    if price_gpu_hour is not None and (replay or dry_run or gpus == 0):
        raise click.UsageError(
            "--price-gpu-hour is for a run on GPUs. Omit it; `curate plan` estimates the cost of a run."
        )
    if recorded:
        named = recorded.resolve() if recorded.name in ("", "..") else recorded
        run = out or named.with_name(f"{named.name}-replay")
    else:
        run = out or Path("runs") / config.name
    is_first_rank = os.environ.get("RANK", "0") == "0"

    def open_folder(settings: "Config") -> AbstractContextManager[None]:
        return open_run(run, settings, resume=resume, overwrite=overwrite) if is_first_rank else nullcontext()

    def describe_recovery(error: Exception) -> str:
        return "" if dry_run else f"{suggest_remedy(error)}; --resume continues."

    interruption = report_interruption(f"--resume continues from the last checkpoint in {run}")
    with (
        report_user_errors(TrainError, CurateError, SandboxError),
        report_user_errors(OSError, advice=describe_recovery),
        interruption if is_first_rank else _exit_silently(),
    ):
        if recorded:
            if dry_run:
                raise click.UsageError("--dry-run shows the plan of a CONFIG. Omit --dry-run or --replay.")
            _replay_run(recorded, run, config.changes, open_folder, is_first_rank=is_first_rank)
            return
        from train.run.fit import check_memory, check_ranks, detect_machines
        from train.run.memory import Machines

        described = None if gpus is None else Machines(gpus, gpu_gb or 80.0, host_gb or 0.0)
        machines = described if dry_run else detect_machines(gpus, gpu_gb, host_gb)
        settings = _read_settings(config, machines if gpus is not None else None, include, prompt, engine, sandbox)
        if dry_run:
            from train.run.plan import plan

            for line in plan(settings, described):
                click.echo(line)
            return
        if price_gpu_hour is not None and not machines:
            raise ConfigError("--price-gpu-hour: torch finds no GPU, so no cost can be computed. Omit the price.")
        if machines and is_first_rank:
            check_ranks(settings, machines)
            check_memory(settings, machines)
        from train import loop
        from train.run.evaluation_scheduler import BEST, read_best_record

        with open_folder(settings):
            loop.train(settings, run, report=_make_step_printer(settings.run.steps))
    if is_first_rank:
        if best := read_best_record(run):
            click.echo(f"best in {run / BEST}: step {best['step']}, pass@1 {best['pass@1']:.3f} on {best['suite']}")
        if price_gpu_hour is not None and machines:
            click.echo(f"GPU cost: {write_cost(run, settings, GpuPrice(machines.gpus, price_gpu_hour))}")
        click.echo(f"model in {run / 'model'}, metrics in {run / 'metrics.jsonl'}; to see them: curate plot {run}")


def write_cost(run: Path, config: "Config", price: GpuPrice) -> GpuCost:
    """Write the cost of all steps of the run, including earlier processes, to RUN/cost.json, and return it.

    The number of samples excludes groups that the online filter replaced. Evaluations and engine starts are not part of
    a step, so the cost excludes them.
    """
    from curate.dataset.output_folder import write_atomic
    from train.run.metrics_log import read_metrics

    seconds = [metrics["step_time"] for metrics in read_metrics(run) if metrics.get("step_time") is not None]
    n_samples = len(seconds) * config.rollout.prompts * config.rollout.completions
    cost = GpuCost(price, sum(seconds), n_samples, config.rollout.completions)
    write_atomic(run / "cost.json", json.dumps(cost.as_table(), indent=1) + "\n")
    return cost


def _replay_run(
    recorded: Path, run: Path, changes: Sequence[str], open_folder: "Callable[[Config], AbstractContextManager[None]]",
    *, is_first_rank: bool,
) -> None:  # fmt: skip
    """Audit the journal of a run, train from it again, and print whether both trainings give the same weights."""
    from train import loop
    from train.asynchronous.journal import format_audit
    from train.config import with_overrides
    from train.run.folder import read_stored_config
    from train.run.model_card import MODEL_FOLDER, compute_weights_digest

    if run.resolve() == recorded.resolve():
        raise ConfigError(f"{recorded} would be replaced by its own replay. Choose another --out.")
    settings = with_overrides(read_stored_config(recorded), changes)
    before = compute_weights_digest(recorded / MODEL_FOLDER)
    if is_first_rank:
        for line in format_audit(recorded, staleness=settings.rollout.staleness):
            click.echo(line)
    with open_folder(settings):
        loop.replay(settings, recorded, run, report=_make_step_printer(settings.run.steps))
    if is_first_rank:
        again = compute_weights_digest(run / MODEL_FOLDER)
        relation, rest = ("the same weights as", "") if before == again else ("other weights than", f", not {before}")
        click.echo(f"model in {run / MODEL_FOLDER}, {relation} {recorded / MODEL_FOLDER}: {again}{rest}")


def _read_settings(
    config: ConfigSource, machines: "Machines | None", include: Sequence[str], prompt: Mapping[str, Any],
    engine: Mapping[str, Any], sandbox: Mapping[str, Any],
) -> "Config":  # fmt: skip
    """Read and validate the configuration, and add the packages for programs with their hash.

    machines  machines to which to fit the configuration; None leaves it unchanged
    include   kinds of untrusted rows to use, for training and for evaluation
    """
    from curate.dataset.needed_packages import add_build_packages
    from sandbox.packages import compute_fingerprint
    from train.config import with_sandbox
    from train.rollouts.prompt_dataset import is_prompt_file
    from train.rollouts.reward_model import check_reward_model
    from train.rollouts.rewards import check_custom_reward
    from train.sampling.model_check import check_model, check_tokenizer

    changes = [f"{section}.include={json.dumps(include)}" for section in ("data", "evaluation") if include]

    def read(machine_values: Sequence[str] = ()) -> "Config":
        return config.read(changes, machine=machine_values, prompt=prompt, engine=engine)

    settings = read()
    evaluates = settings.evaluation.dataset or settings.evaluation.suites
    if evaluates or not all(is_prompt_file(dataset) for dataset, _ in settings.data.list_datasets()):
        require_extra("data")  # a file of prompts needs only the extra "train"
    check_model(settings.model.path)
    check_tokenizer(settings.model.path)
    if machines:
        from train.run.fit import find_changed_values, fit_config

        dtype = ("model.dtype=bfloat16",) * bool(machines.gpus)
        settings = fit_config(lambda changes: read((*dtype, *changes)), machines)
        if os.environ.get("RANK", "0") == "0":
            for name, value in find_changed_values(read(), settings).items():
                click.echo(f"--gpus {machines.gpus}: {name} = {json.dumps(value)}")
    settings = with_sandbox(settings, sandbox)
    given = settings.sandbox.to_sandbox_options()
    packages = chain.from_iterable(
        add_build_packages(given, dataset).packages for dataset, _ in settings.data.list_datasets()
    )
    options = replace(given, packages=tuple(dict.fromkeys(packages)))
    sha256 = settings.sandbox.packages_sha256 or compute_fingerprint(options.find_packages())
    settings = with_sandbox(settings, {"packages": options.packages, "packages_sha256": sha256})
    check_custom_reward(settings.reward.function)
    check_reward_model(settings.reward.model, trainable=settings.reward.model_train_steps > 0)
    return settings


@contextmanager
def _exit_silently() -> Iterator[None]:
    """Exit without a message after an interruption, because rank 0 prints one."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(1)


def _make_step_printer(steps: int) -> Callable[[int, Mapping[str, float]], None]:
    start_times: list[float] = []

    def report(step: int, metrics: Mapping[str, float]) -> None:
        line = f"step {step}/{steps}"
        for shown, label in _SHOWN_METRICS:
            for name in filter(re.compile(shown).fullmatch, metrics):
                line += f"  {label or name.removeprefix('eval/')} {metrics[name]:.3g}"
        if "step_time" in metrics:  # absent if the metrics are of a deferred evaluation
            start_times.append(time.monotonic() - metrics["step_time"])
            left = (time.monotonic() - start_times[0]) / len(start_times) * (steps - step)
            line += f"  left {timedelta(seconds=round(left))}"
        click.echo(line)

    return report


@click.command("plot")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path),
    help="Path of the figure: .svg, .png or .pdf.  [default: curves.svg, timeline.svg or evaluations.svg "
    "in the first RUN, or RUN.by-month.svg in its folder]",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(["month"]),
    help="Draw pass@1 by the month of the problems' publication. RUN is then a file of `curate evaluate --out`.  "
    "[default: draw curves of runs]",
)  # fmt: skip
@click.option(
    "--released", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE",
    help="With --by month, draw a line at the model's release; it may have been trained on earlier problems.  "
    "[default: no line]",
)  # fmt: skip
@click.option(
    "--evaluations", is_flag=True,
    help="Draw pass@1 of each suite by step, and the paired difference from the first step, instead of the curves.",
)  # fmt: skip
@click.option("--timeline", is_flag=True, help="Draw when each part of a run was busy or idle, instead of the curves.")
def plot(
    runs: tuple[str, ...], out: Path | None, by: str | None, released: datetime | None, evaluations: bool,
    timeline: bool,
) -> None:  # fmt: skip
    """Plot the curves of training runs: reward, pass@1, length, entropy, clipping.

    RUN is the folder of a run, finished or not, or LABEL=FOLDER. Runs with the same label, such as the seeds of one
    setting, become one curve: their mean, in a band from minimum to maximum. With --by month, RUN is the result of an
    evaluation, and the plot shows whether pass@1 falls for problems published after the model's release.
    """
    require_extra("plot")
    if released and not by:
        raise click.UsageError("--released needs --by month")
    if bool(by) + timeline + evaluations > 1:
        raise click.UsageError("give only one of --by month, --timeline and --evaluations")
    from train.evaluation.results.result import read_result
    from train.run import plots

    with report_user_errors(CurateError, NoRunError, OSError):
        if by:
            first = Path(runs[0])
            out = out or first.with_name(f"{first.stem}.by-month.svg")
            plots.plot_by_month([read_result(Path(run)) for run in runs], out, released and released.date())
        else:
            labelled = [plots.PlottedRun.parse(run) for run in runs]
            name = "timeline" if timeline else "evaluations" if evaluations else "curves"
            out = out or labelled[0].folder / f"{name}.svg"
            draw = {"timeline": plots.plot_timeline, "evaluations": plots.plot_evaluations, "curves": plots.plot_curves}
            draw[name](labelled, out)
    click.echo(out)


@click.group("config")
def config() -> None:
    """Print a configuration file with every key explained."""


@config.command("train")
@click.option(
    "--preset", metavar="NAME",
    help="Preset whose values the file has.  [default: no preset, but the default of each key]",
)  # fmt: skip
def train_command(preset: str | None) -> None:
    """Print a configuration file for `curate train`, with every key and its comment.

    You only need to fill in model.path and data.dataset: curate config train --preset deepcoder-16k > run.toml
    """
    from train.config.describe import format_template

    with report_user_errors(ConfigError):
        lines = list(format_template(preset))
    click.echo("\n".join(lines))
