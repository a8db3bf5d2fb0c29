"""The section of a model card: what one model scores on each suite, and with which sampling."""

from collections.abc import Sequence

from curate.errors import CurateError
from train.evaluation.results.breakdown import format_interval, format_percent, format_share
from train.evaluation.results.labels import model_names
from train.evaluation.results.reader import Result
from train.evaluation.statistics.summary import summarize

_HEAD = "| suite | problems | samples of each | pass@1 | 95% interval | always solved | cut off | sampling |"
_LINE = "|---|--:|--:|--:|---|--:|--:|---|"


def model_card_section(results: Sequence[Result]) -> str:
    """Return the section "Evaluation" in Markdown. Raises CurateError if the results are of several models."""
    names = sorted(set(model_names(results)))
    if len(names) > 1:
        raise CurateError(f"A model card is for one model, and these results are of {', '.join(names)}.")
    notes = [f"- {result.suite}: {result.ratings[0].summary_line}" for result in results if result.ratings]
    lines = ["## Evaluation", "", _HEAD, _LINE, *map(_row, results), "", *notes, *([""] if notes else [])]
    return "\n".join([*lines, "Intervals are over problems. Measured by `curate evaluate`.", ""])


def _row(result: Result) -> str:
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
