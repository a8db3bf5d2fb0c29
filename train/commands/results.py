"""Define the commands for results of evaluations: results, compare, rescore, export-evaluation and evaluations."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from curate.errors import CurateError
from sandbox import SandboxError
from sandbox.commands import options
from sandbox.commands.console import ProgressBar, confirm_overwrite, report_user_errors, require_extra
from sandbox.commands.table import warn
from train.commands.options import FiniteRange, changed_option, print_cells, print_changed_problems
from train.errors import NoRunError
from train.evaluation.judges.extraction import RULES as EXTRACTIONS

if TYPE_CHECKING:
    from sandbox import SandboxOptions
    from train.evaluation.results.result import Result
    from train.evaluation.results.tables import Leaderboard


@click.command("results")
@click.argument(
    "results", nargs=-1, required=True, metavar="FILE|FOLDER...", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "html", "pages", "csv", "model-card"]),
    default="text",
    show_default=True,
    help="Form of the table. `pages` are HTML: the table, and a page for each problem with its prompt and samples.",
)
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="Write the table to this file, or the pages into this folder.  [default: print the table]",
)  # fmt: skip
def command(results: tuple[Path, ...], form: str, out: Path | None) -> None:
    """Show evaluations as a table: a row for each model, a column for each suite, pass@1 with its 95% interval.

    The files are those of `curate evaluate --out`. Marks show the best model of each suite, and models without a
    significant difference from it. `model-card` formats the section of a model card from the results of one model.
    """
    from curate.dataset.output_folder import write_atomic
    from train.evaluation.results import tables
    from train.evaluation.results.result import read_results

    if form in ("html", "pages"):
        require_extra("data")
    with report_user_errors(CurateError, OSError):
        if form == "text" and out is not None:
            raise CurateError("--out needs another --format: markdown, html, pages, csv or model-card.")
        if form == "pages" and out is None:
            raise CurateError("--format pages writes many files. Give a folder for them: --out FOLDER.")
        found = read_results(results)
        if form == "model-card":
            text = tables.format_model_card(found)
        else:
            board = tables.build_leaderboard(found)
            if form == "text":
                _print_leaderboard(board)
                return
            if form == "pages" and out is not None:
                from train.evaluation.results.pages import INDEX, write_pages

                for failure in write_pages(board, out):
                    warn(failure)
                click.echo(out / INDEX)
                return
            if form == "html":
                from train.evaluation.results.pages import render_leaderboard

                text = render_leaderboard(board)
            else:
                text = tables.format_csv(board) if form == "csv" else tables.format_markdown(board)
        if out is None:
            click.echo(text, nl=False)
            return
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, text)
    click.echo(out)


def _print_leaderboard(board: "Leaderboard") -> None:
    from train.evaluation.results import tables

    for note in tables.describe_settings(board):
        click.echo(note)
    print_cells(*tables.tabulate_leaderboard(board))
    click.echo(tables.LEGEND.format(best="*", close="~"))
    for note in tables.describe_ratings(board):
        click.echo(note)


@click.command("compare")
@click.argument(
    "results", nargs=-1, required=True, metavar="A.json B.json...|RUN", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--reference", type=click.Choice(["first", "best"]),
    help="Compare with the first or the best result.  [default: first for two results or a run, best for more]",
)  # fmt: skip
@changed_option
@click.option(
    "--fail-under", type=FiniteRange(-1, 1), metavar="DIFFERENCE",
    help="Exit with status 3 if a difference from the reference is below this: -0.02 allows a loss of 2 points.  "
    "[default: any difference is allowed]",
)  # fmt: skip
@click.option(
    "--fail-if-worse", is_flag=True, help="Exit with status 3 if a model is significantly worse than the reference."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Seed of the permutation test."
)
def compare(
    results: tuple[Path, ...], reference: str | None, changed: int, fail_under: float | None, fail_if_worse: bool,
    seed: int,
) -> None:  # fmt: skip
    """Compare evaluations of the same problems: the paired difference with its 95% interval and p-value.

    The files are those of `curate evaluate --out`. With more than two, p-values are corrected for the number of
    comparisons. Problems and tests must be the same; the command lists differences between settings. RUN is the folder
    of a training run: each evaluated step is compared with the first.
    """
    is_run = len(results) == 1 and results[0].is_dir()
    if not is_run and len(results) < 2:
        raise click.UsageError("give the result files of at least two evaluations, or the folder of a training run")
    from train.evaluation.results import tables
    from train.evaluation.results.result import label_results, read_result
    from train.evaluation.results.settings_table import describe_differences
    from train.evaluation.statistics.comparison import compare_with_reference, find_best_model

    failures: list[str] = []
    with report_user_errors(CurateError, NoRunError, OSError):
        if is_run:
            compared = list(_read_steps(results[0]))
        else:
            found = [read_result(path) for path in results]
            compared = [dict(zip(label_results(found), found, strict=True))]
        for number, by_name in enumerate(compared):
            names = list(by_name)
            models = {name: result.outcomes for name, result in by_name.items()}
            is_selected = reference == "best" or (reference is None and not is_run and len(names) > 2)
            best = find_best_model(models) if is_selected else names[0]
            contenders = compare_with_reference(best, models, is_selected=is_selected, seed=seed)
            if number:
                click.echo()
            click.echo(f"{by_name[best].suite}: differences from {best}, the {'best' if is_selected else 'first'}")
            if note := describe_differences(by_name):
                click.echo(note)
            print_cells(*tables.tabulate_differences(best, models, contenders, is_selected=is_selected))
            for name in (name for name in contenders if changed and (not is_run or name == names[-1])):
                if moved := tables.list_changes(models[best], models[name]):
                    click.echo()
                    print_changed_problems(best, name, moved, changed)
            too_low, worse = [], []
            for name, contender in contenders.items():
                difference = contender.comparison.difference
                if contender.comparison.n_unknown:
                    warn(f"{name}: {contender.comparison.n_unknown} problems have no verdict in one of the two results")
                if fail_under is not None and difference < fail_under:
                    too_low.append(f"{name} differs from {best} by {difference:+.3f}, less than {fail_under:+.3f}")
                if fail_if_worse and contender.differs and difference < 0:
                    worse.append(f"{name} is significantly worse than {best}")
            failures += [*too_low, *worse]
    for failure in failures:
        click.echo(f"Failed: {failure}", err=True)
    sys.exit(3 if failures else 0)


def _read_steps(run: Path) -> "Iterator[dict[str, Result]]":
    """Yield, for each suite of a run, the results by step name."""
    from train.run.pending_evaluation import read_evaluations

    for suite, of_suite in read_evaluations(run).items():
        if len(of_suite) < 2:
            raise NoRunError(f"{run}: only one step is evaluated on {suite} so far. Wait for the next one.")
        yield {f"step {step}": result for step, result in of_suite.items()}


@click.command("rescore")
@click.argument("result", metavar="R.json", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--suite", metavar="NAME=PATH",
    help="Rows of the same problems with the tests to apply.  [default: the rows of the result]",
)  # fmt: skip
@click.option(
    "--extraction", type=click.Choice(EXTRACTIONS),
    help="Rule that extracts the program from a completion.  [default: as in the result]",
)  # fmt: skip
@click.option(
    "--max-tokens", type=click.IntRange(min=1),
    help="Truncate the completions to this number of the tokenizer's tokens before judging.  [default: as sampled]",
)  # fmt: skip
@click.option(
    "--tokenizer", metavar="NAME",
    help="Folder or Hub id of the tokenizer for --max-tokens.  [default: the model of the result]",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path),
    help="Result file with the new verdicts, which may be R.json itself. Completions with their verdicts go to "
    "OUT.samples.jsonl.  [default: only print the changes]",
)  # fmt: skip
@changed_option
@options.add_sandbox_options
def rescore(
    result: Path, suite: str | None, extraction: str | None, max_tokens: int | None, tokenizer: str | None,
    out: Path | None, changed: int, sandbox: "SandboxOptions",
) -> None:  # fmt: skip
    """Rejudge the stored completions of an evaluation with other tests, extraction or length, without sampling.

    R.json is a file of `curate evaluate --out`, with R.json.samples.jsonl in the same folder. The command prints the
    changes of verdicts, and writes only to --out.
    """
    require_extra("data")
    from curate.dataset.needed_packages import add_build_packages
    from train.evaluation import rescore as rescoring
    from train.evaluation.result_metadata import list_verdict_dependencies
    from train.evaluation.results import tables
    from train.evaluation.results.result import read_result
    from train.evaluation.statistics.outcomes import summarize

    if tokenizer is not None and max_tokens is None:
        raise click.UsageError("--tokenizer needs --max-tokens. Give both, or neither")
    to_continue = "the same command continues" if out else "nothing was saved; give --out to resume after interruptions"
    with report_user_errors(CurateError, SandboxError, OSError, interrupt_message=to_continue):
        loaded = rescoring.load_result(read_result(result), suite, extraction)
        sandbox = add_build_packages(sandbox, loaded.result.location)
        truncation = None
        if max_tokens is not None:
            require_extra("train")
            from train.evaluation.truncation import Truncation

            truncation = Truncation.load(max_tokens, tokenizer or loaded.result.model)
        with ProgressBar(" completions") as progress, sandbox.open() as box, TemporaryDirectory() as folder:
            found = rescoring.rescore(
                loaded,
                box,
                rescoring.build_samples_path(out or Path(folder) / result.name),
                dependencies=list_verdict_dependencies(sandbox.find_packages()),
                truncation=truncation,
                progress=progress,
            )
        n_lost = sum(n for was, is_now, n in found.verdict_changes if was != rescoring.NO_VERDICT == is_now)
        if out and not n_lost:
            found.result.write(out)
    before, now = loaded.result.outcomes, found.result.outcomes
    print_cells(*tables.tabulate_strata(now))
    moved = [row for row in found.verdict_changes if row[0] != row[1]]
    click.echo(f"{sum(n for *_, n in moved)} of {sum(n for *_, n in found.verdict_changes)} verdicts changed")
    if moved:
        print_cells(["before", "now", "samples"], [[was, is_now, str(n)] for was, is_now, n in moved])
    print_changed_problems("before", "now", tables.list_changes(before, now), changed)
    if missing := loaded.missing_ids:
        warn(f"{loaded.result.location} does not have {len(missing)} of the problems; they are not counted")
    if n_unknown := summarize(now).n_no_verdict:
        warn(f"{n_unknown} samples have no verdict and are not counted")
    if n_lost:
        raise click.ClickException(
            f"{n_lost} samples had a verdict and have none now, so no result is written. The same command judges them "
            "again."
        )


@click.command("export-evaluation")
@click.argument("result", metavar="R.json", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--to", "form", type=click.Choice(["lcb", "lcb-leaderboard", "evalplus"]), required=True,
    help="Evaluator that reads the file.",
)  # fmt: skip
@click.option(
    "--out", required=True, type=click.Path(path_type=Path),
    help="Path of the file. For lcb-leaderboard, a folder with one subfolder per model.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
def export_evaluation(result: Path, form: str, out: Path, overwrite: bool) -> None:
    """Write an evaluation in the format of another evaluator.

    R.json is a file of `curate evaluate --out`, with R.json.samples.jsonl in the same folder. LiveCodeBench's custom
    evaluator (`lcb`) and EvalPlus (`evalplus`) judge the completions again; the file for LiveCodeBench's leaderboard
    (`lcb-leaderboard`) has the verdicts of R.json. For a model card: curate results --format model-card.
    """
    require_extra("data")
    from curate.dataset.output_folder import write_atomic
    from train.evaluation import exports

    with report_user_errors(CurateError, OSError):
        data = exports.load_export_data(result, form)
        if form == "evalplus":
            text = exports.format_evalplus_samples(data)
            dataset = "humaneval" if data.result.suite_option == "humaneval+" else "mbpp"
            advice = f"evalplus.evaluate --dataset {dataset} --samples {out}"
        else:
            rows = exports.select_rows(data)
            if rows.unreadable:
                warn(f"{len(rows.unreadable)} problems are unreadable; LiveCodeBench counts them as wrong")
            if form == "lcb":
                text = exports.format_lcb_samples(data, rows)
                advice = f"python -m lcb_runner.runner.custom_evaluator --custom_output_file {out}{rows.cli_arguments}"
            else:
                out = out / exports.build_leaderboard_path(data)
                text = exports.format_leaderboard(data, rows)
                advice = f"python -m lcb_runner.evaluation.compute_scores --eval_all_file {out}"
                if len(rows.rows) != exports.N_LEADERBOARD_ROWS:
                    warn(
                        f"this file has {len(rows.rows)} problems, but the leaderboard shows only files with all "
                        f"{exports.N_LEADERBOARD_ROWS} of release_v5"
                    )
        confirm_overwrite(out, overwrite=overwrite)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, text)
    click.echo(f"{out}\nto evaluate it: {advice}")


@click.group("evaluations")
def evaluations() -> None:
    """Download auxiliary data for evaluations."""


@evaluations.group("fetch")
def fetch() -> None:
    """Fetch data of an evaluation suite; evaluations themselves never download it."""


@fetch.command("codeforces")
@click.option(
    "--contests", default="deepcoder", show_default=True, metavar="NUMBERS",
    help="Contests, such as 1971,1980-1990, or deepcoder: the 57 contests of DeepCoder's and CodeElo's problems.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path),
    help="Parquet file of the contests. Contests in it are not fetched again.  [default: "
    "~/.cache/curate/codeforces-contests.parquet, as in `curate evaluate`]",
)  # fmt: skip
@click.option(
    "--base-url", default="https://codeforces.com/api", show_default=True, metavar="URL", help="Address of the API."
)
@click.option(
    "--pause", type=click.FloatRange(min=0), default=2.0, show_default=True, metavar="SECONDS",
    help="Minimum time between two requests; Codeforces's rule is 2 seconds.",
)  # fmt: skip
def fetch_codeforces(contests: str, out: Path | None, base_url: str, pause: float) -> None:
    """Fetch standings and rating changes of Codeforces contests, for the ratings of models.

    The file has points, penalties and earlier ratings, but no user names. After an interruption, the same command
    continues.
    """
    require_extra("data", ("pyarrow", "urllib3"))
    from train.evaluation.codeforces.contests import get_default_contests_path, parse_contest_ids
    from train.evaluation.codeforces.fetch import fetch_contests

    path = out or get_default_contests_path()
    to_continue = f"the contests so far are in {path}; the same command continues"
    with report_user_errors(CurateError, OSError, interrupt_message=to_continue), ProgressBar(" contests") as progress:
        ids = parse_contest_ids(contests)
        done = fetch_contests(ids, path, base_url=base_url, pause_seconds=pause, progress=progress)
    for id, why in done.failure_reasons.items():
        warn(f"contest {id}: {why}")
    failed = f", {len(done.failure_reasons)} could not be fetched" if done.failure_reasons else ""
    click.echo(f"{path}: {done.n_fetched} fetched, {done.n_cached} already in the file{failed}")
    sys.exit(1 if failed else 0)
