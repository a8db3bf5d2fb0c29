"""The table of one evaluation: a row for all problems, then a row for each difficulty, platform and month."""

from collections.abc import Sequence
from math import isnan

from train.evaluation.results.summary_json import summarize_by_stratum
from train.evaluation.statistics.outcomes import ProblemOutcomes
from train.evaluation.statistics.pass_at_j import select_powers_of_two
from train.evaluation.statistics.strata import UNKNOWN
from train.evaluation.statistics.summary import Summary, summarize

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
