"""Tables of results: the strata of one evaluation, differences between models, leaderboards, and model cards."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isnan, nan
from statistics import fmean

from curate.errors import CurateError
from train.evaluation.results.result import Prices, Result, TokenCounts, compute_cost, list_model_names
from train.evaluation.results.settings_table import build_settings_table, describe_differences
from train.evaluation.statistics.comparison import ComparedModel, compare_with_reference, find_best_model
from train.evaluation.statistics.outcomes import (
    UNKNOWN,
    ProblemOutcomes,
    Summary,
    select_powers_of_two,
    summarize,
    summarize_by_stratum,
)

_NONE = "-"  # cell of an unknown number
ALL = "all"


def tabulate_strata(outcomes: Sequence[ProblemOutcomes]) -> tuple[list[str], list[list[str]]]:
    """Tabulate one evaluation: a row for all problems, then one for each difficulty, platform and month.

    Return column names and rows of cells, like every function `tabulate_...`.
    """
    everything = summarize(outcomes)
    j_shown = [j for j in select_powers_of_two(everything.pass_at) if j > 1]
    rows = [(ALL, everything)]
    for stratum, groups in summarize_by_stratum(outcomes).items():
        if len(groups) > 1:
            rows += [(f"{UNKNOWN} {stratum}" if name == UNKNOWN else name, groups[name]) for name in groups]
    passes = [f"pass@{j}" for j in j_shown]
    names = ["", "problems", "pass@1", "95%", *passes, "always", "truncated", "tokens p50", "p95"]
    return names, [
        [
            name,
            str(summary.n_problems),
            format_share(summary.pass_at_1),
            format_interval(summary.low, summary.high),
            *(format_share(summary.pass_at.get(j)) for j in j_shown),
            format_share(summary.always_solved_share),
            format_percent(summary.truncated_share),
            format_tokens(summary.tokens_p50),
            format_tokens(summary.tokens_p95),
        ]
        for name, summary in rows
    ]


def tabulate_lengths(
    evaluations: Sequence[tuple[str, int, Sequence[ProblemOutcomes]]],
) -> tuple[list[str], list[list[str]]]:
    """Tabulate the errors between requested and actual lengths of completions: mean |length - target|.

    evaluations: (name, target length in tokens, outcomes) for each target
    """
    rows = []
    for name, target, outcomes in evaluations:
        lengths = [n for problem in outcomes for n in problem.tokens if n]
        error = fmean(abs(n - target) for n in lengths) if lengths else nan
        mean = fmean(lengths) if lengths else nan
        shown = [format_tokens(mean), _NONE if isnan(error) else f"{error:.0f}", format_percent(error / target)]
        rows.append([name, str(target), str(len(lengths)), *shown, format_share(summarize(outcomes).pass_at_1)])
    return ["", "target", "samples", "tokens mean", "error", "of target", "pass@1"], rows


def format_share(value: float | None) -> str:
    return _NONE if value is None or isnan(value) else f"{value:.3f}"


def format_interval(low: float, high: float) -> str:
    return _NONE if isnan(low) else f"{low:.3f}-{high:.3f}"


def format_percent(value: float) -> str:
    return _NONE if isnan(value) else f"{value:.1%}"


def format_tokens(n: float) -> str:
    """Format a number of tokens briefly, such as 812, 9.8k and 29k; "-" for nan and 0 (unknown)."""
    if isnan(n) or not n:
        return _NONE
    return f"{n:.0f}" if n < 1000 else f"{n / 1000:.1f}k" if n < 9950 else f"{n / 1000:.0f}k"


def format_cost(tokens: TokenCounts, prices: Prices) -> str:
    amount = compute_cost(tokens, prices)
    prompt, completion = ("unknown" if n is None else f"{n:,}" for n in (tokens.prompt, tokens.completion))
    paid = "unknown" if amount is None else f"{amount:,.2f}"
    return f"tokens of prompts: {prompt}, of completions: {completion}; cost: {paid}"


def tabulate_differences(
    reference: str,
    models: Mapping[str, Sequence[ProblemOutcomes]],
    contenders: Mapping[str, ComparedModel],
    *,
    is_selected: bool = False,
) -> tuple[list[str], list[list[str]]]:
    """Tabulate the differences between a reference, in the first row, and other models.

    With several other models, a column has corrected p-values: by Holm's method, or for all pairs if the reference
    was selected as the best. With one sample per problem, two columns count the problems solved by only one model.
    """
    names = ["", "problems", "pass@1", "difference", "95%", "p", "visible"]
    several = len(contenders) > 1
    single = all(problem.n <= 1 for outcomes in models.values() for problem in outcomes)
    names += ["p (all pairs)" if is_selected else "p (Holm)"] if several else []
    names += ["only it", f"only {reference}"] if single and contenders else []

    def format_solve_rate(name: str) -> list[str]:
        summary = summarize(models[name])
        return [str(summary.n_problems), format_share(summary.pass_at_1)]

    rows = [[reference, *format_solve_rate(reference), *[_NONE] * (len(names) - 3)]]
    for name, contender in contenders.items():
        found = contender.comparison
        row = [
            name,
            str(found.n_problems),
            format_solve_rate(name)[1],
            format_difference(found.difference),
            f"{format_difference(found.low)}..{format_difference(found.high)}",
            format_p_value(found.p),
            format_share(found.minimum_detectable),
        ]
        row += [format_p_value(contender.p_corrected)] if several else []
        if single:
            only_it = sum(difference > 0 for difference in found.differences.values())
            row += [str(only_it), str(len(found.differences) - only_it)]
        rows.append(row)
    return names, rows


def list_changes(first: Sequence[ProblemOutcomes], second: Sequence[ProblemOutcomes]) -> list[tuple[str, str, str]]:
    """List problems with different solve rates, such as ("abc365_d", "0/8", "7/8"), the largest change first."""
    by_id = {problem.id: problem for problem in first}
    pairs = [(by_id[problem.id], problem) for problem in second if problem.id in by_id]
    moved = [(a, b, b.n_correct / b.n - a.n_correct / a.n) for a, b in pairs if a.n and b.n]
    moved = sorted((item for item in moved if item[2]), key=lambda item: (-abs(item[2]), item[2] > 0, item[0].id))
    return [(a.id, f"{a.n_correct}/{a.n}", f"{b.n_correct}/{b.n}") for a, b, _ in moved]


def format_difference(value: float) -> str:
    return _NONE if isnan(value) else f"{value:+.3f}"


def format_p_value(p: float) -> str:
    """Format a p-value, with "<0.0001" for smaller values."""
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of a model on a suite.

    is_best    whether the model has the highest pass@1 of the suite, alone or with other models
    contender  comparison with the best model; None for the best model, and without any verdict
    """

    result: Result
    summary: Summary
    is_best: bool
    contender: ComparedModel | None

    @property
    def is_close(self) -> bool:
        """Return whether the model is not the best, but not significantly worse."""
        return not self.is_best and self.contender is not None and not self.contender.differs


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The cells by (model, suite), without a cell for a missing result."""

    models: tuple[str, ...]
    suites: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]


def build_leaderboard(results: Sequence[Result]) -> Leaderboard:
    """Build the leaderboard. Results on different problems or tests of a suite have separate columns."""
    columns: dict[str, dict[str, Result]] = {}
    suites = _label_suites(results)
    rows: list[str] = []
    for name, suite, result in zip(list_model_names(results), suites, results, strict=True):
        of_suite = columns.setdefault(suite, {})
        row = name if name not in of_suite else f"{name} ({result.path.stem})"
        while row in of_suite:
            row += "'"
        of_suite[row] = result
        if row not in rows:
            rows.append(row)
    cells = {
        (row, suite): cell for suite, of_suite in columns.items() for row, cell in _compare_with_best(of_suite).items()
    }
    return Leaderboard(tuple(rows), tuple(columns), cells)


def _compare_with_best(results: dict[str, Result]) -> dict[str, Cell]:
    models = {name: result.outcomes for name, result in results.items()}
    best = find_best_model(models)
    known = {name: outcomes for name, outcomes in models.items() if any(problem.n for problem in outcomes)}
    contenders = compare_with_reference(best, known, is_selected=True) if len(known) > 1 else {}
    summaries = {name: summarize(outcomes) for name, outcomes in models.items()}
    highest = summaries[best].pass_at_1
    return {
        name: Cell(result, summaries[name], isclose(summaries[name].pass_at_1, highest), contenders.get(name))
        for name, result in results.items()
    }


def _label_suites(results: Sequence[Result]) -> list[str]:
    """Return the suite name of each result, with a number if problems or tests vary."""
    contents: dict[str, list[list[tuple[str, str]]]] = {}
    names = []
    for result in results:
        known = contents.setdefault(result.suite, [])
        content = sorted((problem.id, problem.tests_digest) for problem in result.outcomes)
        if content not in known:
            known.append(content)
        number = known.index(content) + 1
        names.append(result.suite if number == 1 else f"{result.suite} ({number})")
    return names


_HEAD = "| suite | problems | samples of each | pass@1 | 95% interval | always solved | truncated | sampling |"
_LINE = "|---|--:|--:|--:|---|--:|--:|---|"


def format_model_card(results: Sequence[Result]) -> str:
    """Format the section "Evaluation" in Markdown. Raises CurateError if the results are of several models."""
    names = sorted(set(list_model_names(results)))
    if len(names) > 1:
        raise CurateError(
            f"A model card is for one model, but these results are of {', '.join(names)}. Give results of one model."
        )
    notes = [f"- {result.suite}: {rating.summary_line}" for result in results for rating in result.ratings[:1]]
    lines = [
        "## Evaluation",
        "",
        _HEAD,
        _LINE,
        *map(_format_model_card_row, results),
        "",
        *notes,
        *([""] if notes else []),
    ]
    return "\n".join([*lines, "Intervals are over problems. Measured by `curate evaluate`.", ""])


def _format_model_card_row(result: Result) -> str:
    found = summarize(result.outcomes)
    sampling = result.sampling
    settings = f"T {sampling.get('temperature', '?')}, top_p {sampling.get('top_p', '?')}"
    cells = [
        result.suite.replace("|", "\\|"),
        str(found.n_problems),
        str(result.k),
        format_share(found.pass_at_1),
        format_interval(found.low, found.high),
        format_share(found.always_solved_share),
        format_percent(found.truncated_share),
        f"{settings}, {sampling.get('max_tokens', '?')} tokens",
    ]
    return f"| {' | '.join(cells)} |"


LEGEND = "pass@1 with its 95% interval. Best of a suite: {best}. Not significantly worse than the best: {close}."
_CSV = ("model", "suite", "file", "problems", "samples", "k", "pass_at_1", "standard_error", "low", "high")
_CSV_MARKS = ("best", "p_from_best", "not_significantly_worse")
_CSV_SETTINGS = ("temperature", "top_p", "max_tokens", "protocol")
_CSV_RATING = ("rating", "rating_by", "rating_low", "rating_high", "percentile")


def describe_ratings(board: Leaderboard) -> list[str]:
    """Return a line for each model and suite with a rating."""
    return [
        f"{model}, {suite}: {rating.summary_line}"
        for (model, suite), cell in board.cells.items()
        for rating in cell.result.ratings[:1]
    ]


def describe_settings(board: Leaderboard) -> list[str]:
    """Return a line for each suite with differences in settings."""
    by_suite: dict[str, dict[str, Result]] = {}
    for (model, suite), cell in board.cells.items():
        by_suite.setdefault(suite, {})[model] = cell.result
    differences = {suite: describe_differences(results) for suite, results in by_suite.items()}
    return [f"{suite}: {difference}" for suite, difference in differences.items() if difference]


def _tabulate_leaderboard(
    board: Leaderboard, format_result: Callable[[Cell, str, str], str]
) -> tuple[list[str], list[list[str]]]:
    def format_cell(model: str, suite: str) -> str:
        cell = board.cells.get((model, suite))
        if cell is None:
            return ""
        return format_result(
            cell, format_share(cell.summary.pass_at_1), f"({format_interval(cell.summary.low, cell.summary.high)})"
        )

    return ["model", *board.suites], [
        [model, *(format_cell(model, suite) for suite in board.suites)] for model in board.models
    ]


def tabulate_leaderboard(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """Tabulate the leaderboard for a terminal: * marks the best model, ~ models not significantly worse."""
    return _tabulate_leaderboard(
        board, lambda cell, value, range: f"{value} {range} {'*' if cell.is_best else '~' if cell.is_close else ' '}"
    )


def format_markdown(board: Leaderboard) -> str:
    """Format the leaderboard in Markdown: the best model is bold, ~ marks models not significantly worse."""

    def format_cell(cell: Cell, value: str, range: str) -> str:
        return f"**{value}** {range}" if cell.is_best else f"{value}{' ~' if cell.is_close else ''} {range}"

    names, rows = _tabulate_leaderboard(board, format_cell)
    lines = [names, ["---", *["--:"] * len(board.suites)], *([row[0].replace("|", "\\|"), *row[1:]] for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    notes = "".join(f"- {note}\n" for note in [*describe_settings(board), *describe_ratings(board)])
    return f"{table}\n\n{LEGEND.format(best='bold', close='~')}\n" + (f"\n{notes}" if notes else "")


def format_csv(board: Leaderboard) -> str:
    """Format the leaderboard as CSV, with a line per model and suite; unknown values are empty."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*_CSV, *_CSV_MARKS, *_CSV_RATING, *_CSV_SETTINGS])
    for (model, suite), cell in board.cells.items():
        found, settings = cell.summary, build_settings_table(cell.result)
        numbers = [found.pass_at_1, found.standard_error, found.low, found.high]
        writer.writerow(
            [model, suite, cell.result.path, found.n_problems, found.n_samples, cell.result.k]
            + list(map(_format_number, numbers))
            + [
                int(cell.is_best),
                _format_number(cell.contender.p_corrected if cell.contender else None),
                int(cell.is_close),
            ]
            + _format_rating_cells(cell.result)
            + [settings[name] for name in _CSV_SETTINGS]
        )
    return written.getvalue()


def _format_rating_cells(result: Result) -> list[str]:
    if not result.ratings:
        return [""] * len(_CSV_RATING)
    rating = result.ratings[0]
    return [
        _format_number(rating.rating),
        rating.basis,
        *map(_format_number, (rating.low, rating.high, rating.percentile)),
    ]


def _format_number(number: float | None) -> str:
    return "" if number is None or isnan(number) else repr(number)
