"""How many tokens an evaluation has taken, and what a provider charges for them.

MERGED The table of one evaluation: a row for all problems, then a row for each difficulty, platform and month.

MERGED What `curate compare` shows: the differences of models from a reference, and the problems that changed sides.

MERGED Models by suites: pass@1 of each, which is the best, and which are not significantly worse than the best.

The models of a suite can be compared only if they were asked the same problems with the same tests. Where they were
not, a suite has several columns.

MERGED The section of a model card: what one model scores on each suite, and with which sampling.

MERGED A leaderboard as text, Markdown, HTML or CSV.
"""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isnan

from curate.errors import CurateError
from train.evaluation.results.result import Result, model_names, summarize_by_stratum
from train.evaluation.statistics.comparison import ComparedModel, best_model, compare_with_reference
from train.evaluation.statistics.outcomes import UNKNOWN, ProblemOutcomes, Summary, select_powers_of_two, summarize

_PRICED = 1_000_000  # tokens that a price is for


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a million tokens, in any currency. Raises ValueError if one is below 0."""

    prompt: float
    answer: float

    def __post_init__(self) -> None:
        if not (self.prompt >= 0 and self.answer >= 0):
            raise ValueError(f"a price is at least 0, not {self.prompt:g} and {self.answer:g}")


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The tokens of all samples, reasoning included; None: the server did not tell how long some of them are."""

    prompt: int | None
    answer: int | None


def sum_tokens(samples: Iterable[tuple[int, int]]) -> TokenCounts:
    """Return the sums over samples, each given as the lengths of its prompt and its answer; 0: unknown.

    The prompt counts once for each sample, as providers count it.
    """
    prompt: int | None = 0
    answer: int | None = 0
    for n_prompt, n_answer in samples:
        prompt = prompt + n_prompt if prompt is not None and n_prompt else None
        answer = answer + n_answer if answer is not None and n_answer else None
    return TokenCounts(prompt, answer)


def format_cost(tokens: TokenCounts, prices: Prices) -> str:
    """Return a line that says what the tokens cost."""
    amount = cost(tokens, prices)
    prompt, answer = ("unknown" if n is None else f"{n:,}" for n in (tokens.prompt, tokens.answer))
    paid = "unknown" if amount is None else f"{amount:,.2f}"
    return f"tokens of prompts: {prompt}, of answers: {answer}; cost: {paid}"


def cost(tokens: TokenCounts, prices: Prices) -> float | None:
    """Return what the tokens cost, in the currency of the prices; None: tokens that cost something are unknown."""
    parts = ((tokens.prompt, prices.prompt), (tokens.answer, prices.answer))
    if any(n is None and price for n, price in parts):
        return None
    return sum((n or 0) * price for n, price in parts) / _PRICED


_NONE = "-"  # where a number is not known
ALL = "all"


def breakdown(outcomes: Sequence[ProblemOutcomes], *, has_lengths: bool = True) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the cells of each row.

    has_lengths: whether lengths and cut-offs are known; otherwise they are shown as unknown.
    """
    everything = summarize(outcomes)
    j_shown = [j for j in select_powers_of_two(dict(everything.pass_at)) if j > 1]
    rows = [(ALL, everything)]
    for fact, groups in summarize_by_stratum(outcomes).items():
        if len(groups) > 1:
            rows += [(f"{UNKNOWN} {fact}" if name == UNKNOWN else name, groups[name]) for name in groups]
    passes = [f"pass@{j}" for j in j_shown]
    names = ["", "problems", "pass@1", "95%", *passes, "always", "cut off", "tokens p50", "p95"]
    return names, [_row(name, summary, j_shown, has_lengths=has_lengths) for name, summary in rows]


def _row(name: str, summary: Summary, j_shown: Sequence[int], *, has_lengths: bool) -> list[str]:
    lengths = [
        format_percent(summary.truncated_share),
        format_tokens(summary.tokens_p50),
        format_tokens(summary.tokens_p95),
    ]
    return [
        name,
        str(summary.n_problems),
        format_share(summary.pass_at_1),
        format_interval(summary.low, summary.high),
        *(format_share(summary.pass_at.get(j)) for j in j_shown),
        format_share(summary.always_solved_share),
        *(lengths if has_lengths else [_NONE] * len(lengths)),
    ]


def format_share(value: float | None) -> str:
    """Return a share with three digits."""
    return _NONE if value is None or isnan(value) else f"{value:.3f}"


def format_interval(low: float, high: float) -> str:
    """Return the two ends of an interval of shares."""
    return _NONE if isnan(low) else f"{low:.3f}-{high:.3f}"


def format_percent(value: float) -> str:
    """Return a share in percent with one digit."""
    return _NONE if isnan(value) else f"{value:.1%}"


def format_tokens(n: float) -> str:
    """Return a number of tokens in few characters, such as 812, 9.8k and 29k."""
    if isnan(n):
        return _NONE
    return f"{n:.0f}" if n < 1000 else f"{n / 1000:.1f}k" if n < 9950 else f"{n / 1000:.0f}k"


_DIFFERENCE_NONE = "-"


def difference_table(
    reference: str, models: Mapping[str, Sequence[ProblemOutcomes]], contenders: Mapping[str, ComparedModel]
) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the cells of each row: the reference, then the others in their order.

    With more than one other model, a column has the p-values after Holm's correction. If all models have one sample
    of each problem, two columns have the problems that only one of two models solved, which McNemar's test counts.
    """
    names = ["", "problems", "pass@1", "difference", "95%", "p", "visible"]
    several = len(contenders) > 1
    discordant = bool(contenders) and all(one.comparison.mcnemar is not None for one in contenders.values())
    names += ["p (Holm)"] if several else []
    names += ["only it", f"only {reference}", "p (McNemar)"] if discordant else []
    rows = [_filled([reference, *_solved(models[reference])], len(names))]
    for name, contender in contenders.items():
        found = contender.comparison
        row = [
            name,
            str(found.n_problems),
            _solved(models[name])[1],
            signed(found.difference),
            f"{signed(found.low)}..{signed(found.high)}",
            format_p_value(found.p),
            format_share(found.minimum_detectable),
        ]
        row += [format_p_value(contender.p_corrected)] if several else []
        if discordant and found.mcnemar is not None:
            row += [str(found.mcnemar.only_second), str(found.mcnemar.only_first), format_p_value(found.mcnemar.p)]
        rows.append(row)
    return names, rows


def _solved(outcomes: Sequence[ProblemOutcomes]) -> list[str]:
    summary = summarize(outcomes)
    return [str(summary.n_problems), format_share(summary.pass_at_1)]


def _filled(cells: list[str], n: int) -> list[str]:
    return cells + [_DIFFERENCE_NONE] * (n - len(cells))


def changed_problems(first: Sequence[ProblemOutcomes], second: Sequence[ProblemOutcomes]) -> list[tuple[str, str, str]]:
    """Return the problems that the second model solves more or less often than the first, the largest change first.

    Each comes with the numbers of right samples of both, such as ("abc365_d", "0/8", "7/8").
    """
    by_id = {problem.id: problem for problem in first}
    pairs = [(by_id[problem.id], problem) for problem in second if problem.id in by_id]
    moved = [(a, b, b.n_correct / b.n - a.n_correct / a.n) for a, b in pairs if a.n and b.n]
    moved = sorted((item for item in moved if item[2]), key=lambda item: (-abs(item[2]), item[2] > 0, item[0].id))
    return [(a.id, f"{a.n_correct}/{a.n}", f"{b.n_correct}/{b.n}") for a, b, _ in moved]


def signed(value: float) -> str:
    """Return a difference of shares with its sign."""
    return _DIFFERENCE_NONE if isnan(value) else f"{value:+.3f}"


def format_p_value(p: float) -> str:
    """Return a p-value with two digits that count, and not less than its precision deserves."""
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of a model on a suite.

    is_best      whether it has the highest pass@1 of the suite
    p_corrected  of its difference from the best, after Holm's correction; None for the best
    is_close     whether it is not the best, but not significantly worse
    """

    result: Result
    summary: Summary
    is_best: bool
    p_corrected: float | None
    is_close: bool


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The cells by the names of models and of suites. A model without a result on a suite has no cell there."""

    models: tuple[str, ...]
    suites: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]


def leaderboard(results: Sequence[Result]) -> Leaderboard:
    """Return the table of these results. Raises CurateError if results on one suite cannot be compared."""
    columns: dict[str, dict[str, Result]] = {}
    suites = _suites(results)
    rows: list[str] = []
    for name, suite, result in zip(model_names(results), suites, results, strict=True):
        of_suite = columns.setdefault(suite, {})
        row = name if name not in of_suite else f"{name} ({result.path.stem})"
        while row in of_suite:
            row += "'"
        of_suite[row] = result
        if row not in rows:
            rows.append(row)
    cells = {(row, suite): cell for suite, of_suite in columns.items() for row, cell in _ranked(of_suite).items()}
    return Leaderboard(tuple(rows), tuple(columns), cells)


def _ranked(results: dict[str, Result]) -> dict[str, Cell]:
    models = {name: result.outcomes for name, result in results.items()}
    first = best_model(models)
    known = {name: outcomes for name, outcomes in models.items() if any(problem.n for problem in outcomes)}
    contenders = compare_with_reference(first, known) if len(known) > 1 else {}
    cells = {}
    for name, result in results.items():
        contender = contenders.get(name)
        cells[name] = Cell(
            result,
            summarize(result.outcomes),
            is_best=name == first,
            p_corrected=None if contender is None else contender.p_corrected,
            is_close=contender is not None and not contender.differs,
        )
    return cells


def _suites(results: Sequence[Result]) -> list[str]:
    """Return the name of each result's suite, with a number where a name stands for different problems or tests."""
    contents: dict[str, list[str]] = {}
    names = []
    for result in results:
        known = contents.setdefault(result.suite, [])
        content = _content(result)
        if content not in known:
            known.append(content)
        number = known.index(content) + 1
        names.append(result.suite if number == 1 else f"{result.suite} ({number})")
    return names


def _content(result: Result) -> str:
    tests = sorted((problem.id, problem.tests_digest) for problem in result.outcomes)
    return hashlib.sha256(json.dumps(tests).encode()).hexdigest()


_HEAD = "| suite | problems | samples of each | pass@1 | 95% interval | always solved | cut off | sampling |"
_LINE = "|---|--:|--:|--:|---|--:|--:|---|"


def model_card_section(results: Sequence[Result]) -> str:
    """Return the section "Evaluation" in Markdown. Raises CurateError if the results are of several models."""
    names = sorted(set(model_names(results)))
    if len(names) > 1:
        raise CurateError(f"A model card is for one model, and these results are of {', '.join(names)}.")
    notes = [f"- {result.suite}: {result.ratings[0].summary_line}" for result in results if result.ratings]
    lines = ["## Evaluation", "", _HEAD, _LINE, *map(_model_card_row, results), "", *notes, *([""] if notes else [])]
    return "\n".join([*lines, "Intervals are over problems. Measured by `curate evaluate`.", ""])


def _model_card_row(result: Result) -> str:
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
        format_percent(found.truncated_share) if result.is_complete else "-",
        f"{settings}, {sampling.get('max_tokens', '?')} tokens",
    ]
    return f"| {' | '.join(cells)} |"


LEGEND = "pass@1 with its 95% interval. Best of a suite: {best}. Not significantly worse than the best: {close}."
_CSV = ("model", "suite", "file", "problems", "samples", "k", "pass_at_1", "standard_error", "low", "high")
_CSV_MARKS = ("best", "p_from_best", "not_significantly_worse")
_CSV_RATING = ("rating", "rating_by", "rating_low", "rating_high", "percentile")


def rating_notes(board: Leaderboard) -> list[str]:
    """Return a line for each model and suite that has a rating besides pass@1."""
    return [
        f"{model}, {suite}: {cell.result.ratings[0].summary_line}"
        for (model, suite), cell in board.cells.items()
        if cell.result.ratings
    ]


def leaderboard_table(board: Leaderboard, mark: Callable[[Cell, str, str], str]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the cells of each row.

    mark: makes the text of a cell from the cell, its pass@1 and its interval.
    """

    def text(model: str, suite: str) -> str:
        cell = board.cells.get((model, suite))
        if cell is None:
            return ""
        return mark(
            cell, format_share(cell.summary.pass_at_1), f"({format_interval(cell.summary.low, cell.summary.high)})"
        )

    return ["model", *board.suites], [
        [model, *(text(model, suite) for suite in board.suites)] for model in board.models
    ]


def text_cells(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the cells of each row for a terminal: * is the best, ~ is close to it."""
    return leaderboard_table(
        board, lambda cell, value, range: f"{value} {range} {'*' if cell.is_best else '~' if cell.is_close else ' '}"
    )


def as_markdown(board: Leaderboard) -> str:
    """Return a table in which the best is bold and those that are not significantly worse have a tilde."""
    names, rows = leaderboard_table(board, _markdown_cell)
    lines = [names, ["---", *["--:"] * len(board.suites)], *([row[0].replace("|", "\\|"), *row[1:]] for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    notes = "".join(f"- {note}\n" for note in rating_notes(board))
    return f"{table}\n\n{LEGEND.format(best='bold', close='~')}\n" + (f"\n{notes}" if notes else "")


def _markdown_cell(cell: Cell, value: str, range: str) -> str:
    return f"**{value}** {range}" if cell.is_best else f"{value}{' ~' if cell.is_close else ''} {range}"


def as_html(board: Leaderboard) -> str:
    """Return a whole page with one table."""

    def text(cell: Cell, value: str, range: str) -> str:
        shown = f"<b>{value}</b>" if cell.is_best else f"{value}{' ~' if cell.is_close else ''}"
        return f"{shown} <small>{range}</small>"

    names, rows = leaderboard_table(board, text)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "\n".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in rating_notes(board))
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Evaluations</title>
<style>
body {{ font-family: sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: 0.3em 1em; text-align: right; border-bottom: 1px solid #ddd; }}
th:first-child {{ text-align: left; }}
small {{ color: #666; }}
</style></head>
<body>
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
<p>{escape(LEGEND.format(best="bold", close="~"))}</p>
{notes}</body>
</html>
"""


def as_csv(board: Leaderboard) -> str:
    """Return one line for each model and suite, with all digits. What is unknown is empty."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*_CSV, *_CSV_MARKS, *_CSV_RATING])
    for (model, suite), cell in board.cells.items():
        found = cell.summary
        numbers = [found.pass_at_1, found.standard_error, found.low, found.high]
        writer.writerow(
            [model, suite, cell.result.path, found.n_problems, found.n_samples, cell.result.k]
            + list(map(_digits, numbers))
            + [int(cell.is_best), "" if cell.p_corrected is None else repr(cell.p_corrected), int(cell.is_close)]
            + _rating_cells(cell)
        )
    return written.getvalue()


def _rating_cells(cell: Cell) -> list[str]:
    """Return the cells of the rating that says most; empty ones if there is none."""
    if not cell.result.ratings:
        return [""] * len(_CSV_RATING)
    rating = cell.result.ratings[0]
    return [_digits(rating.rating), rating.basis, *map(_digits, (rating.low, rating.high, rating.percentile))]


def _digits(number: float) -> str:
    return "" if number != number else repr(number)
