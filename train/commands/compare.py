"""Define the command `curate compare`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sandbox.commands.console import report_user_errors
from sandbox.commands.table import warn
from train.commands.options import FiniteRange, changed_option, print_cells, print_changed_problems

if TYPE_CHECKING:
    from train.evaluation.results.result import Result
    from train.evaluation.statistics.comparison import ComparedModel


@click.command("compare")
@click.argument(
    "results", nargs=-1, required=True, metavar="A.json B.json...|RUN", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--reference",
    type=click.Choice(["first", "best"]),
    help="Compare with the first result, or with the best.  [default: first of two or of a run, best of more]",
)
@changed_option
@click.option(
    "--fail-under", type=FiniteRange(-1, 1), metavar="DIFFERENCE",
    help="End with status 3 if a model differs from the reference by less than this: -0.02 allows a loss of 2 points.  "
    "[default: any difference is allowed]",
)  # fmt: skip
@click.option(
    "--fail-if-worse", is_flag=True, help="End with status 3 if a model is significantly worse than the reference."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Seed of the permutation test."
)
def command(
    results: tuple[Path, ...], reference: str | None, changed: int, fail_under: float | None, fail_if_worse: bool,
    seed: int,
) -> None:  # fmt: skip
    """Compare evaluations of the same problems: the paired difference with its 95% interval and p-value.

    The files are those of `curate evaluate --out`. With more than two, p-values have Holm's correction. The command
    refuses evaluations of different problems, or with different tests. RUN is the folder of a training run: each step
    that was evaluated is compared with the first.
    """
    is_run = len(results) == 1 and results[0].is_dir()
    if not is_run and len(results) < 2:
        raise click.UsageError("give the result files of at least two evaluations, or the folder of a training run")
    from curate.errors import CurateError
    from train.errors import NoRunError
    from train.evaluation.results.result import labels, read_result
    from train.evaluation.statistics.comparison import best_model, compare_with_reference

    failures: list[str] = []
    with report_user_errors(CurateError, NoRunError, OSError):
        if is_run:
            tables = list(_steps(results[0]))
        else:
            found = [read_result(path) for path in results]
            tables = [(labels(found), found)]
        for number, (names, found) in enumerate(tables):
            if number:
                click.echo()
            of_first = reference == "first" or (reference is None and (is_run or len(names) == 2))
            by_name = dict(zip(names, found, strict=True))
            models = {name: result.outcomes for name, result in by_name.items()}
            best = names[0] if of_first else best_model(models)
            contenders = compare_with_reference(best, models, seed=seed)
            heading = "the first" if of_first else "the best"
            _print(best, by_name, contenders, changed, names[-1:] if is_run else names, heading)
            failures += _failures(best, contenders, fail_under, worse=fail_if_worse)
    for failure in failures:
        click.echo(f"Failed: {failure}", err=True)
    sys.exit(3 if failures else 0)


def _steps(run: Path) -> "Iterator[tuple[list[str], list[Result]]]":
    """Yield the names of the steps of a run and their results, for each suite."""
    from train.errors import NoRunError
    from train.run.pending_evaluation import read_evaluations

    for suite, of_suite in read_evaluations(run).items():
        if len(of_suite) < 2:
            raise NoRunError(f"{run}: only one step is evaluated on {suite} so far. Wait for the next one.")
        yield [f"step {step}" for step in of_suite], list(of_suite.values())


def _print(
    reference: str, results: "Mapping[str, Result]", contenders: "Mapping[str, ComparedModel]", most_changed: int,
    of: "Sequence[str]", heading: str,
) -> None:  # fmt: skip
    """Print the table, the problems that changed most in some of the results, and what makes it doubtful."""
    from train.evaluation.results import tables

    models = {name: result.outcomes for name, result in results.items()}
    click.echo(f"{results[reference].suite}: differences from {reference}, {heading}")
    print_cells(*tables.difference_table(reference, models, contenders))
    for name in (name for name in contenders if most_changed and name in of):
        if moved := tables.changed_problems(models[reference], models[name]):
            click.echo()
            print_changed_problems(reference, name, moved, most_changed)
    for name, contender in contenders.items():
        if contender.comparison.n_unknown:
            warn(f"{name}: {contender.comparison.n_unknown} problems have no verdict in one of the two")


def _failures(
    reference: str, contenders: "Mapping[str, ComparedModel]", under: float | None, *, worse: bool
) -> "Iterator[str]":
    """Yield why the command fails: differences below a bound and, if asked, results that are worse."""
    for name, contender in contenders.items():
        difference = contender.comparison.difference
        if under is not None and difference < under:
            yield f"{name} differs from {reference} by {difference:+.3f}, less than {under:+.3f}"
    for name, contender in contenders.items():
        if worse and contender.differs and contender.comparison.difference < 0:
            yield f"{name} is significantly worse than {reference}"
