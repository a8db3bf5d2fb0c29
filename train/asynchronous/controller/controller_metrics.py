"""What is counted beside the groups: losses, lengths, ages. A cut closes the account."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from statistics import fmean

from train.asynchronous.groups.open_group import OpenGroup


@dataclass(slots=True)
class _Lengths:
    """Tokens and answers of the groups of one birth: those that came, and those that were trained on."""

    came: int = 0
    n_came: int = 0
    used: int = 0
    n_used: int = 0


@dataclass(slots=True)
class ControllerMetrics:
    """Counts since the start (n_dead, n_lost, n_broken) and the figures of the last cut.

    The length bias of a birth is the mean length of the answers that were trained on, divided by the mean length of all
    that came. It is known when no group of that birth can be used any more. Below 1, short answers were preferred.
    Births up to `last_ignored_version` are left out: part of their answers came before this process began.
    """

    n_dead_workers: int = 0
    n_lost_leases: int = 0
    n_invalid_results: int = 0
    last_ignored_version: int = -1
    signal_counts: dict[str, int] = field(default_factory=dict)
    last_batch: dict[str, float] = field(default_factory=dict)
    _lengths: dict[int, _Lengths] = field(default_factory=lambda: defaultdict(_Lengths))
    _n_spans: list[int] = field(default_factory=list)
    _before: tuple[int, int] = (0, 0)
    _slowest_call: float = 0.0

    def record_call_seconds(self, seconds: float) -> None:
        """Note how long a worker waited for the reply to a call."""
        self._slowest_call = max(self._slowest_call, seconds)

    def pop_slowest_call_seconds(self) -> float:
        """Return the longest of these times since it was asked for before."""
        slowest, self._slowest_call = self._slowest_call, 0.0
        return slowest

    def record_result(self, start_version: int, n_tokens: int, n_spans: int) -> None:
        lengths = self._lengths[start_version]
        lengths.came += n_tokens
        lengths.n_came += 1
        self._n_spans.append(n_spans)

    def record_batch(self, version: int, groups: Sequence[OpenGroup], *, staleness: int) -> None:
        for group in groups:
            lengths = self._lengths[group.dispatched.start_version]
            for answered in group.answers.values():
                lengths.used += len(answered.answer.tokens) // 4
                lengths.n_used += 1
        ages = [version - group.dispatched.start_version for group in groups]
        over = [
            (start_version, self._lengths.pop(start_version))
            for start_version in sorted(self._lengths)
            if start_version <= version - staleness
        ]
        known = [lengths for start_version, lengths in over if start_version > self.last_ignored_version]
        self.last_batch = {
            "groups/age_mean": fmean(ages),
            "groups/age_max": max(ages),
            "groups/cut": len(groups),
            "answers/spans": fmean(self._n_spans) if self._n_spans else nan,
            "answers/broken": self.n_invalid_results - self._before[1],
            "leases/lost": self.n_lost_leases - self._before[0],
            "length_bias": _bias(known),
        }
        self._before = self.n_lost_leases, self.n_invalid_results
        self._n_spans.clear()


def _bias(lengths: Sequence[_Lengths]) -> float:
    came, n_came = sum(each.came for each in lengths), sum(each.n_came for each in lengths)
    used, n_used = sum(each.used for each in lengths), sum(each.n_used for each in lengths)
    return (used / n_used) / (came / n_came) if came and n_used else nan
