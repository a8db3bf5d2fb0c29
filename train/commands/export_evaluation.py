"""Define the command `curate export-evaluation`."""

from pathlib import Path

import click

from sandbox.commands.console import confirm_overwrite, report_user_errors, require_extra
from sandbox.commands.table import warn

_FORMS = ("lcb", "lcb-leaderboard", "evalplus")


@click.command("export-evaluation")
@click.argument("result", metavar="R.json", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--to", "form", type=click.Choice(_FORMS), required=True, help="The evaluator that reads the file.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path),
    help="The file. For lcb-leaderboard, the folder that has a folder for each model.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
def command(result: Path, form: str, out: Path, overwrite: bool) -> None:
    """Write an evaluation in the form that another evaluator reads.

    R.json is a file of `curate evaluate --out`, with R.json.samples.jsonl beside it. `lcb` is for LiveCodeBench's
    custom evaluator and `evalplus` for EvalPlus, which judge the answers again; `lcb-leaderboard` has our verdicts, for
    LiveCodeBench's leaderboard and its computation of scores. For a model card: curate results --format model-card.
    """
    require_extra("data")
    from curate.dataset.output_folder import write_atomic
    from curate.errors import CurateError
    from train.evaluation import exports

    with report_user_errors(CurateError, OSError):
        answers = exports.load_export_data(result, form)
        if form == "evalplus":
            text = exports.format_evalplus_samples(answers)
            dataset = "humaneval" if answers.result.given_suite == "humaneval+" else "mbpp"
            advice = f"evalplus.evaluate --dataset {dataset} --samples {out}"
        else:
            rows = exports.select_rows(answers)
            if rows.unreadable:
                warn(f"{len(rows.unreadable)} problems cannot be read here; LiveCodeBench counts them as wrong")
            if form == "lcb":
                text = exports.format_lcb_samples(answers, rows)
                advice = f"python -m lcb_runner.runner.custom_evaluator --custom_output_file {out}{rows.cli_arguments}"
            else:
                out = out / exports.leaderboard_path(answers)
                text = exports.format_leaderboard(answers, rows)
                advice = f"python -m lcb_runner.evaluation.compute_scores --eval_all_file {out}"
                if len(rows.rows) != exports.N_LEADERBOARD_ROWS:
                    warn(
                        f"this file has {len(rows.rows)} problems, and the leaderboard shows only files with all "
                        f"{exports.N_LEADERBOARD_ROWS} of release_v5"
                    )
        confirm_overwrite(out, overwrite=overwrite)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, text)
    click.echo(f"{out}\nto judge it there: {advice}")
