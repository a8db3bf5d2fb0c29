"""Define the command `curate plan`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sandbox.commands.console import report_user_errors, require_extra
from train.commands.options import ConfigSource, config_options, gpu_hour_option
from train.errors import TrainError
from train.gpu_cost import GpuCost, GpuPrice

if TYPE_CHECKING:
    from train.planning.simulate import Workload
    from train.planning.split import GpuSplit

_MAX_STALENESS = 4  # up to this, no loss of quality in AReaL's and INTELLECT-2's ablations
_SIMILAR_SPEED = 0.97  # minimum speed, relative to the fastest mode, of a recommended mode with less staleness


@click.command("plan")
@config_options
@click.option(
    "--gpus", type=click.IntRange(1, 4096), required=True, help="Number of GPUs to split between learner and engines."
)
@click.option(
    "--gpu", type=click.Choice(["h100", "h200", "a100"]), default="h100", show_default=True, help="Model of the GPUs."
)
@click.option(
    "--mean-tokens", type=click.FloatRange(1),
    help="Mean length of the completions.  [default: three tenths of the longest stage's max_tokens]",
)  # fmt: skip
@click.option(
    "--sigma", type=click.FloatRange(0, 3), default=0.9, show_default=True,
    help="Standard deviation of the logarithm of the completion lengths.",
)  # fmt: skip
@click.option(
    "--rejected",
    type=click.FloatRange(0, 0.75),  # above, almost all simulated groups would be rejected
    default=0.0,
    show_default=True,
    help="Share of groups without a learning signal. A run replaces each of them by another group.",
)
@gpu_hour_option
def command(
    config: ConfigSource, gpus: int, gpu: str, mean_tokens: float | None, sigma: float, rejected: float,
    price_gpu_hour: float | None,
) -> None:  # fmt: skip
    """Simulate a run on N GPUs and recommend a split between learner and engines.

    CONFIG is the file of `curate train`, or give --preset with --model and --data. A discrete-event simulation
    dispatches groups and selects batches as a run does, until the step time is precise to 5%. The columns "steps" and
    "+-" show the number of simulated steps and the precision. Speeds of engines and learner are derived from the GPU's
    data sheet; real runs take up to three times as long.
    """
    require_extra("train")
    from train.planning.engine import GPUS
    from train.planning.split import MODES, build_cluster, build_model_size, build_workload, find_best_split

    with report_user_errors(TrainError, ValueError):
        settings = config.read()
        model = build_model_size(settings)
        workload = build_workload(settings, mean_tokens=mean_tokens, sigma=sigma, rejected_share=rejected)
        cluster = build_cluster(settings, GPUS[gpu], gpus)
        click.echo(
            f"{settings.model.path}, {model.parameters / 1e9:.3g}B parameters, on {gpus} x {cluster.gpu.name}; "
            f"{workload.groups} x {workload.completions} completions of {workload.lengths.mean:,.0f} tokens on "
            f"average, at most {workload.lengths.limit:,}"
        )
        click.echo(
            f"{'pipeline':<22}{'learner':>9}{'engines':>9}{'s/step':>9}{'+-':>5}{'steps':>7}{'speed':>8}{'staleness':>11}"
            f"{'idle GPUs':>11}"
        )
        splits: list[GpuSplit] = []
        for mode in MODES:
            if split := find_best_split(mode, model, cluster, workload):
                splits.append(split)
                click.echo(_format_row(split, splits[0], gpus, cluster.tensor_parallel))
        if not splits:
            raise click.ClickException(
                f"{gpus} GPUs are too few for a learner and an engine. Give --gpus a higher number."
            )
        advised = _recommend_split(splits)
        click.echo(_format_settings(advised, cluster.tensor_parallel))
        if price_gpu_hour is not None:
            click.echo(_format_cost(advised, workload, GpuPrice(gpus, price_gpu_hour), settings.run.steps))


def _format_row(split: "GpuSplit", first: "GpuSplit", gpus: int, tensor_parallel: int) -> str:
    outcome = split.result
    if split.mode.pipeline == "sync":
        idle = outcome.learner_idle_share + outcome.engine_idle_share - 1
    else:
        engine_gpus = split.engines * tensor_parallel
        idle = (outcome.learner_idle_share * split.learner_gpus + outcome.engine_idle_share * engine_gpus) / gpus
    return (
        f"{split.mode!s:<22}{split.learner_gpus:>9}{split.engines:>9}{outcome.step_seconds:>9.0f}"
        f"{outcome.step_seconds_error:>5.0%}{outcome.n_steps:>7}"
        f"{outcome.tokens_per_second / first.result.tokens_per_second:>7.2f}x"
        f"{outcome.staleness_mean:>11.1f}{max(0.0, idle):>11.0%}"
    )


def _recommend_split(splits: Sequence["GpuSplit"]) -> "GpuSplit":
    """Return the first split of similar speed as the fastest, among splits with a staleness up to _MAX_STALENESS."""
    candidates = [split for split in splits if split.mode.staleness <= _MAX_STALENESS]
    fastest = max(split.result.tokens_per_second for split in candidates)
    return next(split for split in candidates if split.result.tokens_per_second >= _SIMILAR_SPEED * fastest)


def _format_settings(split: "GpuSplit", tensor_parallel: int) -> str:
    lines = [f"advice: {split.mode}", f"  --set rollout.pipeline={split.mode.pipeline}"]
    if split.mode.pipeline == "async":
        lines[-1] += (
            f" --set rollout.staleness={split.mode.staleness} --set objective.old=learner --set objective.truncation=2"
        )
    if split.mode.pipeline == "sync":
        lines.append(f"  the learner on all {split.learner_gpus} GPUs, alternating with {split.engines} engines")
    else:
        size = f" of {tensor_parallel} GPUs" if tensor_parallel > 1 else ""
        lines.append(f"  torchrun with {split.learner_gpus} ranks for the learner, and {split.engines} engines{size}")
    return "\n".join(lines)


def _format_cost(split: "GpuSplit", workload: "Workload", price: GpuPrice, steps: int) -> str:
    n_samples = steps * workload.groups * workload.completions
    run = GpuCost(price, steps * split.result.step_seconds, n_samples, workload.completions)
    return f"cost: {run.total_cost / steps:,.2f} a step, {run}, for run.steps = {steps}"
