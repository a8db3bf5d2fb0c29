"""Define the command `curate swarm calibrate`."""

from pathlib import Path

import click

from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from train.commands.options import ConfigSource, config_options


@click.command("calibrate")
@config_options
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File for the bars. Those of other pairs of engines in it stay.",
)
@click.option(
    "--groups",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Groups to draw, each of rollout.completions answers.",
)
def command(config: ConfigSource, out: Path, groups: int) -> None:
    """Measure how far honest answers are from what a verifier computes, and set the bars of a swarm by it.

    CONFIG is the file of `curate train`. Its engine draws answers to its prompts on this machine, which should be as
    those of the nodes are; then a verifier looks at the answers, on this machine as well. `curate coordinator --bars`
    takes the file.
    """
    require_extra("train")
    from curate.errors import CurateError
    from train.errors import TrainError
    from train.swarm.verification.calibrate import calibrate
    from train.swarm.verification.thresholds_file import read_thresholds, write_thresholds

    with report_user_errors(TrainError, CurateError):
        settings = config.read()
        others = read_thresholds(out) if out.exists() else {}
        with ProgressBar(" answers") as progress:
            pair, thresholds, found = calibrate(settings, n_leases=groups, report=progress)
        write_thresholds(out, {**others, pair: thresholds})
    click.echo(f"{pair}: {found.n_tokens:,} tokens of {groups * settings.rollout.completions} answers")
    for name, measured, bar in (
        ("exponents that differ in a chunk, at most", found.exponent_mismatches, thresholds.exponent_mismatches),
        ("exponents that differ, on average", found.exponent_mismatches_mean, thresholds.exponent_mismatches_mean),
        ("difference of mantissas, on average", found.mantissa_mean, thresholds.mantissa_mean),
        ("tokens that the seeds give, share", 1 - found.token_mismatches / found.n_tokens, thresholds.seed_match_share),
        ("nats that a token was below the best, at most", found.max_margin, thresholds.max_margin),
        ("difference of log-probabilities, on average", found.logprob_error, thresholds.logprob_error),
    ):
        click.echo(f"  {name:<47}{measured:>12.4g}   bar {bar:.4g}")
    click.echo(f"the bars are in {out}")
