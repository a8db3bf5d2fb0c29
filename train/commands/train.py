"""`curate train`"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import click

from train.commands.extras import require_train


@click.command("train")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/ and CONFIG's name]")
@click.option(
    "--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Instead of what CONFIG says. Repeatable."
)
@click.option("--resume", is_flag=True, help="Go on after the newest checkpoint in the folder, if it has one.")
@click.option("--overwrite", is_flag=True, help="Start anew where the folder holds a run.")
@click.option("--dry-run", is_flag=True, help="Show the plan and what memory it takes; train nothing.")
def command(
    config: Path, out: Path | None, changes: tuple[str, ...], resume: bool, overwrite: bool, dry_run: bool
) -> None:
    """Train a model on a dataset with GRPO+.

    CONFIG is a TOML file: a preset, the model, the dataset, and what is to differ; see train/config.py for all keys
    and train/presets/ for the presets. Kill it at any moment: the same command with --resume goes on. On several GPUs:
    torchrun --nproc-per-node 8 -m cli train CONFIG.
    """
    require_train()
    from curate.errors import CurateError
    from sandbox import SandboxError
    from train import config as configuration
    from train.errors import RunError
    from train.run.folder import prepared
    from train.sampling.protocol import SamplerError

    run = out or Path("runs") / config.stem
    first = os.environ.get("RANK", "0") == "0"
    if first:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # clusters send it before they kill
    try:
        read = configuration.read(config, changes)
        if dry_run:
            from train.run.plan import plan

            for line in plan(read):
                click.echo(line)
            return
        from train import loop

        with prepared(run, read, resume=resume, overwrite=overwrite) if first else nullcontext():
            loop.train(read, run, report=_train_report(read.run.steps))
    except (RunError, CurateError, SamplerError, SandboxError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:  # such as a full disk
        raise click.ClickException(f"{error}. The same command with --resume goes on.") from error
    except KeyboardInterrupt:
        if not first:
            sys.exit(1)
        raise click.ClickException(f"interrupted; --resume goes on after the last checkpoint in {run}") from None
    finally:
        if first:
            signal.signal(signal.SIGTERM, before)
    if first:
        click.echo(f"model in {run / 'model'}, figures in {run / 'metrics.jsonl'}; see: curate plot {run}")


def _train_report(steps: int) -> Callable[[int, Mapping[str, float]], None]:
    """A line for each step, with the time left."""
    began: list[float] = []

    def report(step: int, found: Mapping[str, float]) -> None:
        began.append(time.monotonic() - found["step_time"])
        left = (time.monotonic() - began[0]) / len(began) * (steps - step)
        shown = {"reward": "reward", "completions/mean_length": "tokens", "completions/clipped_ratio": "cut",
                 "entropy": "entropy", "eval/pass@1": "pass@1", "step_time": "s"}  # fmt: skip
        words = "  ".join(f"{label} {found[name]:.3g}" for name, label in shown.items() if name in found)
        click.echo(f"step {step}/{steps}  {words}  left {timedelta(seconds=round(left))}")

    return report
