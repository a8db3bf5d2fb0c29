"""What `curate evaluate` prints of the evaluation on one suite."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from sandbox.commands.table import warn
from train.commands.cells import print_cells
from train.commands.evaluation.model import EvaluatedModel
from train.commands.evaluation.suite_evaluation import SuiteEvaluation

if TYPE_CHECKING:
    from train.evaluation.evaluate import EvaluationResult


def print_evaluation(
    job: SuiteEvaluation, model: EvaluatedModel, evaluation: "EvaluationResult", ratings: "Sequence[dict[str, Any]]"
) -> None:
    """Print what was evaluated, the table of the result, what became of samples that say little, and the rating."""
    from train.evaluation.results.breakdown import breakdown
    from train.evaluation.results.cost import format_cost
    from train.evaluation.results.ratings import rating_lines, stored_ratings

    click.echo(_heading(job, model, evaluation))
    if line := job.settings.summary_line():
        click.echo(line)
    print_cells(*breakdown(evaluation.outcomes))
    if evaluation.n_truncated or evaluation.n_no_code:
        click.echo(
            f"of {evaluation.n_samples} samples, {evaluation.n_truncated} were cut off "
            f"({evaluation.n_truncated_correct} of them right), and {evaluation.n_no_code} ended without a program"
        )
    if evaluation.n_unscored:
        warn(f"{evaluation.n_unscored} samples have no verdict and are left out, see above")
    if model.prices is not None:
        click.echo(format_cost(evaluation.tokens, model.prices))
    for line in rating_lines(stored_ratings({"ratings": ratings})):
        click.echo(line)


def _heading(job: SuiteEvaluation, model: EvaluatedModel, evaluation: "EvaluationResult") -> str:
    from train.evaluation.results.labels import short_model_name
    from train.evaluation.results.reader import suite_label
    from train.evaluation.results.tests_source import tests_source
    from train.evaluation.suites import dataset

    used = job.settings.suite_settings
    days = sorted(problem.metadata.date for problem in evaluation.outcomes if problem.metadata.date is not None)
    held = [f"held {days[0]}..{days[-1]}"] if used.window and days else []
    source = tests_source(evaluation.outcomes)
    name = job.location if job.suite in ("", dataset.NAME) else job.suite
    what = [
        f"{suite_label(name, used.window)}, {len(evaluation.outcomes)} problems x {used.k}",
        *held,
        *([f"tests: {source}"] if source else []),
        f"T {used.temperature:g}",
        f"{used.max_tokens} tokens",
    ]
    return f"{short_model_name(model.name)}: {', '.join(what)}"
