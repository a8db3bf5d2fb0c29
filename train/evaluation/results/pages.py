"""HTML pages of results: a leaderboard and, for each problem of a result, a page with its prompt and its samples.

Completions can take gigabytes: only some are in memory at a time, and pages omit the middle of long ones. They are
untrusted model output: the templates escape them, and base.html forbids scripts.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from curate.dataset.output_folder import write_atomic
from curate.errors import CurateError
from curate.report import html_kit
from train.evaluation.protocols.settings import format_setting
from train.evaluation.rescore import LoadedResult, list_sample_keys, load_result
from train.evaluation.results.result import Result
from train.evaluation.results.settings_table import build_settings_table
from train.evaluation.results.tables import (
    LEGEND,
    Leaderboard,
    describe_ratings,
    describe_settings,
    format_interval,
    format_share,
    tabulate_strata,
)
from train.evaluation.sample_store import SampleRecord, iterate_samples
from train.evaluation.statistics.outcomes import ProblemOutcomes
from train.evaluation.suites.suite import Exercise

INDEX = "index.html"
_MAX_BEGINNING, _MAX_END = 20_000, 60_000  # characters to show of a long completion; its program is usually at the end
_MAX_SAMPLES = 2_000  # maximum number of samples in memory

Links = Mapping[tuple[str, str], str]


def render_leaderboard(board: Leaderboard, links: Links | None = None) -> str:
    """Render the leaderboard as a self-contained page.

    links: URLs of result pages by (model, suite); None: no pages
    """
    return _render(
        "leaderboard",
        board=board,
        links=links or {},
        notes=[*describe_settings(board), *describe_ratings(board)],
        legend=LEGEND.format(best="bold", close="~"),
        settings={cell: build_settings_table(entry.result) for cell, entry in board.cells.items()},
    )


def write_pages(board: Leaderboard, folder: Path) -> list[str]:
    """Write the leaderboard and the pages of its results into a folder. Overwrites earlier pages.

    Returns a line for each result without completions or prompts. Raises OSError.
    """
    failures: list[str] = []
    links: dict[tuple[str, str], str] = {}
    for number, (cell, entry) in enumerate(board.cells.items(), 1):
        result = entry.result
        exercises: Mapping[str, Exercise] = {}
        try:
            samples = LoadedResult(result, exercises).samples_path
        except CurateError as error:
            failures.append(str(error))
            continue
        try:
            exercises = load_result(result).exercises
        except CurateError as error:
            failures.append(f"the pages of {result.path} have no prompts: {error}")
        _write_result_pages(result, samples, exercises, folder / str(number))
        links[cell] = f"{number}/{INDEX}"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / INDEX, render_leaderboard(board, links))
    return failures


def _write_result_pages(result: Result, samples: Path, exercises: Mapping[str, Exercise], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{number}.html" for number in range(1, len(result.outcomes) + 1)]
    for index, (problem, records) in enumerate(_iterate_problems(result, samples)):
        page = _render(
            "problem",
            result=result,
            problem=problem,
            messages=_build_prompt_messages(exercises.get(problem.id)),
            records=records,
            previous=names[index - 1] if index else None,
            next=names[index + 1] if index + 1 < len(names) else None,
        )
        write_atomic(folder / names[index], page)
    columns, rows = tabulate_strata(result.outcomes)
    problems = list(zip(names, result.outcomes, strict=True))
    page = _render(
        "result", result=result, columns=columns, rows=rows, problems=problems, settings=build_settings_table(result)
    )
    write_atomic(folder / INDEX, page)


def _iterate_problems(result: Result, samples: Path) -> Iterator[tuple[ProblemOutcomes, Sequence[SampleRecord | None]]]:
    """Yield each problem with the records of its samples; None for a sample without a completion."""
    batch_size = max(1, _MAX_SAMPLES // max(1, result.k))
    for start in range(0, len(result.outcomes), batch_size):
        problems = result.outcomes[start : start + batch_size]
        records = dict(iterate_samples(samples, {key for problem in problems for key in list_sample_keys(problem)}))
        for problem in problems:
            yield problem, [records.get(key) for key in list_sample_keys(problem)]


def _build_prompt_messages(exercise: Exercise | None) -> Sequence[Mapping[str, str]]:
    if exercise is None:
        return ()
    return [{"role": "text", "content": exercise.prompt}] if isinstance(exercise.prompt, str) else exercise.prompt


def _omit_middle(text: str) -> str:
    n_omitted = len(text) - _MAX_BEGINNING - _MAX_END
    if n_omitted <= 0:
        return text
    return f"{text[:_MAX_BEGINNING]}\n\n[... {n_omitted:,} characters are left out ...]\n\n{text[-_MAX_END:]}"


def _render(name: str, **values: Any) -> str:
    formats = {"share": format_share, "interval": format_interval, "setting": format_setting, "cut": _omit_middle}
    return html_kit.render(Path(__file__).with_name(f"{name}.html"), **values, **formats)
