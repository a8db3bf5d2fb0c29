"""Define the command `curate train`."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.commands.include_option import include_option
from curate.commands.prompt_options import prompt_options
from sandbox.commands import options
from sandbox.commands.console import report_user_errors, require_extra
from train.commands.options import (
    CommandWithConfigKeys,
    ConfigSource,
    config_options,
    engine_option,
    report_interruption,
)

if TYPE_CHECKING:
    from train.config import Config

# The metrics in the line that is printed for each step, with their labels.
_SHOWN_METRICS = {
    "reward": "reward",
    "completions/mean_length": "tokens",
    "completions/clipped_ratio": "cut",
    "entropy": "entropy",
    "eval/pass@1": "pass@1",
    "groups/age_mean": "stale",  # only of asynchronous runs
    "step_time": "s",
}
_OF_SUITE = re.compile(r"eval/[^/]+/pass@1")


@click.command("train", cls=CommandWithConfigKeys)
@config_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the run.  [default: runs/ and the name of CONFIG, or of the preset if there is no CONFIG]",
)
@include_option
@prompt_options
@engine_option
@click.option("--resume", is_flag=True, help="Continue from the newest checkpoint in the folder, if there is one.")
@click.option("--overwrite", is_flag=True, help="Delete the run that is in the folder, and start a new one.")
@click.option(
    "--replay", is_flag=True,
    help="CONFIG is the folder of a finished asynchronous run: train it again from its journal, without engines and "
    "rewards, and compare the weights.  [default for --out: that folder's name and -replay]",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the plan and the memory it needs; train nothing.")
@click.option(
    "--gpus", type=click.IntRange(0),
    help="With --dry-run: refuse what does not fit on so many GPUs, up to 8 in a machine, or on a CPU if 0.  [default: "
    "show the needs of the learner for several numbers]",
)  # fmt: skip
@click.option("--gpu-gb", type=float, default=80.0, help="With --gpus: memory of a GPU in GB.  [default: 80]")
@click.option("--host-gb", type=float, help="With --gpus: memory of each machine in GB.  [default: not judged]")
@options.sandbox_overrides
def command(
    config: ConfigSource, out: Path | None, include: tuple[str, ...], prompt: dict[str, Any], engine: dict[str, Any],
    resume: bool, overwrite: bool, replay: bool, dry_run: bool, gpus: int | None, gpu_gb: float, host_gb: float | None,
    sandbox: dict[str, Any],
) -> None:  # fmt: skip
    """Train a model on a dataset with GRPO+.

    Without CONFIG: curate train --preset deepcoder-16k --model MODEL --data DATASET.

    CONFIG is a TOML file: a preset, the model, the dataset, and what differs from the preset. Its keys are listed
    below; `curate config train --preset NAME` prints a file with all of them. Options replace what the file says: those
    of the prompt its section [prompt], --engine its section [engine], and those that say where programs run its section
    [sandbox]. The run can be killed at any moment: the same command with --resume continues it. On several GPUs:
    torchrun --nproc-per-node 8 --no-python curate train CONFIG.
    """
    require_extra("train")
    require_extra("data")
    from curate.errors import CurateError
    from sandbox import SandboxError
    from train.errors import TrainError, recovery_hint
    from train.run.folder import open_run

    recorded = _recorded_run(config) if replay else None
    if recorded:
        named = recorded.resolve() if recorded.name in ("", "..") else recorded
        run = out or named.with_name(f"{named.name}-replay")
    else:
        run = out or Path("runs") / config.name
    is_first_rank = os.environ.get("RANK", "0") == "0"

    def open_folder(settings: "Config") -> AbstractContextManager[None]:
        return open_run(run, settings, resume=resume, overwrite=overwrite) if is_first_rank else nullcontext()

    interruption = report_interruption(f"--resume continues from the last checkpoint in {run}")
    with (
        report_user_errors(TrainError, CurateError, SandboxError),
        report_user_errors(
            OSError, advice=lambda error: "" if dry_run else f"{recovery_hint(error)}; --resume continues."
        ),
        interruption if is_first_rank else _end_silently(),
    ):
        if recorded:
            if dry_run:
                raise click.UsageError("--dry-run shows the plan of a CONFIG. Leave it out, or --replay.")
            _replay(recorded, run, config.changes, open_folder, is_first_rank=is_first_rank)
            return
        settings = _settings(config, include, prompt, engine, sandbox)
        if gpus is not None and not dry_run:
            raise click.UsageError("--gpus describes the machines of a plan. Give --dry-run, too.")
        if dry_run:
            from train.run.memory import Machines
            from train.run.plan import plan

            for line in plan(settings, None if gpus is None else Machines(gpus, gpu_gb, host_gb or 0.0)):
                click.echo(line)
            return
        from train import loop
        from train.run.evaluation_scheduler import BEST, read_best_record

        with open_folder(settings):
            loop.train(settings, run, report=_step_printer(settings.run.steps))
    if is_first_rank:
        if note := read_best_record(run):
            found = f"pass@1 {note['pass@1']:.3f} on {note['suite']}"
            click.echo(f"best in {run / BEST}: step {note['step']}, {found}")
        click.echo(f"model in {run / 'model'}, metrics in {run / 'metrics.jsonl'}; to see them: curate plot {run}")


def _recorded_run(config: ConfigSource) -> Path:
    """Return the folder of the run to train again, which stands in the place of CONFIG."""
    if config.path is None or config.preset or config.model or config.dataset:
        raise click.UsageError(
            "--replay takes the configuration from the folder of a run. Give that folder, without --preset, --model "
            "and --data."
        )
    return config.path


def _replay(
    recorded: Path, run: Path, changes: Sequence[str], open_folder: "Callable[[Config], AbstractContextManager[None]]",
    *, is_first_rank: bool,
) -> None:  # fmt: skip
    """Audit the journal of a run, train the run again from it, and say whether the weights are the same."""
    from train import loop
    from train.asynchronous.journal import audit_lines
    from train.config import with_overrides
    from train.errors import ConfigError
    from train.run.folder import read_stored_config
    from train.run.model_card import MODEL_FOLDER, weights_digest

    if run.resolve() == recorded.resolve():
        raise ConfigError(f"{recorded} would be replaced by its own replay. Choose another --out.")
    settings = with_overrides(read_stored_config(recorded), changes)
    before = weights_digest(recorded / MODEL_FOLDER)
    if is_first_rank:
        for line in audit_lines(recorded, staleness=settings.rollout.staleness):
            click.echo(line)
    with open_folder(settings):
        loop.replay(settings, recorded, run, report=_step_printer(settings.run.steps))
    if is_first_rank:
        again = weights_digest(run / MODEL_FOLDER)
        words = "the same weights as" if before == again else "other weights than"
        line = f"model in {run / MODEL_FOLDER}, {words} {recorded / MODEL_FOLDER}: {again}"
        click.echo(line if before == again else f"{line}, not {before}")


def _settings(
    config: ConfigSource, include: Sequence[str], prompt: Mapping[str, Any], engine: Mapping[str, Any],
    sandbox: Mapping[str, Any],
) -> "Config":  # fmt: skip
    """Return the configuration, with the packages that programs can import and their hash, after checks of its names.

    include: rows to use although they are not trusted, for training and for evaluation
    """
    from curate.dataset.needed_packages import with_packages
    from sandbox.packages import fingerprint
    from train.config import with_sandbox
    from train.rollouts.rewards import check_custom_reward
    from train.sampling.model_check import check_model

    changes = [f"{section}.include={json.dumps(include)}" for section in ("data", "evaluation") if include]
    settings = with_sandbox(config.read(changes, prompt=prompt, engine=engine), sandbox)
    given = settings.sandbox.options()
    of_each = [with_packages(given, dataset).packages for dataset, _ in settings.data.parts()]
    options = replace(given, packages=tuple(dict.fromkeys(package for packages in of_each for package in packages)))
    sha256 = settings.sandbox.packages_sha256 or fingerprint(options.find_packages())
    settings = with_sandbox(settings, {"packages": options.packages, "packages_sha256": sha256})
    check_model(settings.model.path)
    check_custom_reward(settings.reward.function)
    return settings


@contextmanager
def _end_silently() -> Iterator[None]:
    """End without a message after an interruption, because the first rank explains it."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(1)


def _step_printer(steps: int) -> Callable[[int, Mapping[str, float]], None]:
    """Return a function that prints a line for each step, with the time left."""
    start_time: list[float] = []

    def report(step: int, metrics: Mapping[str, float]) -> None:
        shown: dict[str, str] = {}
        for name, label in _SHOWN_METRICS.items():
            if name in metrics:
                shown[name] = label
            if name == "eval/pass@1":  # with several suites, each has its own
                shown |= {each: each.removeprefix("eval/") for each in metrics if _OF_SUITE.fullmatch(each)}
        values = "  ".join(f"{label} {metrics[name]:.3g}" for name, label in shown.items())
        if "step_time" not in metrics:  # of an evaluation beside the run
            click.echo(f"step {step}/{steps}  {values}")
            return
        start_time.append(time.monotonic() - metrics["step_time"])
        left = (time.monotonic() - start_time[0]) / len(start_time) * (steps - step)
        click.echo(f"step {step}/{steps}  {values}  left {timedelta(seconds=round(left))}")

    return report
