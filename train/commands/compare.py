"""Define the command `curate compare`."""

import sys
from pathlib import Path

import click

from sandbox.commands.frame import user_errors
from sandbox.commands.table import warn
from train.commands.cells import print_cells


@click.command("compare")
@click.argument(
    "results", nargs=-1, required=True, metavar="A.json B.json...", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--reference",
    type=click.Choice(["first", "best"]),
    help="Compare with the first result, or with the best.  [default: first of two, best of more]",
)
@click.option(
    "--changed",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many of the problems that changed most to show.",
)
@click.option(
    "--fail-under",
    type=click.FloatRange(-1, 1),
    metavar="DIFFERENCE",
    help="End with status 3 if a model differs from the reference by less than this: -0.02 allows a loss of 2 points.  "
    "[default: any difference is allowed]",
)
@click.option(
    "--fail-if-worse", is_flag=True, help="End with status 3 if a model is significantly worse than the reference."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Seed of the permutation test."
)
def command(
    results: tuple[Path, ...],
    reference: str | None,
    changed: int,
    fail_under: float | None,
    fail_if_worse: bool,
    seed: int,
) -> None:
    """Compare evaluations of the same problems: the paired difference with its 95% interval and p-value.

    The files are those of `curate evaluate --out`. With more than two, p-values have Holm's correction. The command
    refuses evaluations of different problems, or with different tests.
    """
    if len(results) < 2:
        raise click.UsageError("give the result files of at least two evaluations")
    from curate.errors import CurateError
    from train.evaluation.results import difference
    from train.evaluation.results.labels import labels
    from train.evaluation.results.read import read
    from train.evaluation.statistics.ranking import against, best

    with user_errors(CurateError, OSError):
        found = [read(path) for path in results]
        names = labels(found)
        models = {name: result.outcomes for name, result in zip(names, found, strict=True)}
        of_first = reference == "first" or (reference is None and len(models) == 2)
        chosen = names[0] if of_first else best(models)
        contenders = against(chosen, models, seed=seed)
        click.echo(f"{found[0].suite}: differences from {chosen}, {'the first' if of_first else 'the best'}")
        print_cells(*difference.differences(chosen, models, contenders))
        for name in contenders:
            moved = difference.changed(models[chosen], models[name]) if changed else []
            _print_changed(chosen, name, moved, changed)
        unknown = [name for name, result in zip(names, found, strict=True) if not result.is_complete]
        if unknown:
            warn(f"{', '.join(unknown)}: an earlier version wrote this file, so its tests may have been different ones")
        for name, contender in contenders.items():
            if contender.comparison.n_unknown:
                warn(f"{name}: {contender.comparison.n_unknown} problems have no verdict in one of the two")
    failures = [
        f"{name} differs from {chosen} by {contender.comparison.difference:+.3f}, less than {fail_under:+.3f}"
        for name, contender in contenders.items()
        if fail_under is not None and contender.comparison.difference < fail_under
    ]
    failures += [
        f"{name} is significantly worse than {chosen}"
        for name, contender in contenders.items()
        if fail_if_worse and contender.differs and contender.comparison.difference < 0
    ]
    for failure in failures:
        click.echo(f"Failed: {failure}", err=True)
    sys.exit(3 if failures else 0)


def _print_changed(first: str, second: str, moved: list[tuple[str, str, str]], most: int) -> None:
    """Print the problems that two models solve differently often."""
    if not moved:
        return
    click.echo()
    rest = f", the {most} with the largest change" if len(moved) > most else ""
    click.echo(f"{len(moved)} problem{'s' if len(moved) > 1 else ''} changed{rest}:")
    print_cells(["", first, second], moved[:most])
