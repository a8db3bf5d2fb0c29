"""Two statements alike: the same problem twice, or two problems of one series?

"Two Sum" and "Two Sum II" share nearly all their words and are different problems. What tells them apart is
looked for in what the rows hold anyway: their titles, the functions they ask for, and their tests.
"""

import re

from curate.parsing import Unparsable, json_text, json_value
from curate.problem import Problem
from sandbox import Suite
from sandbox.checkers import tokens

_SERIES = {"i", "ii", "iii", "iv", "v", "easy", "medium", "hard"}


def difference(one: Problem, other: Problem) -> str | None:
    """What shows that two problems with similar statements are not the same one; None if nothing does."""
    if _of_one_series(one.title, other.title):
        return "their titles number them"
    if one.tests.entry_point and other.tests.entry_point and one.tests.entry_point != other.tests.entry_point:
        return "they ask for different functions"
    if _contradict(one.tests, other.tests):
        return "they expect different answers to the same input"
    return None


def _of_one_series(one: str, other: str) -> bool:
    """Titles of the same words but for the part: `... i` and `... ii`, `... easy` and `... hard`."""
    words, others = _title_words(one), _title_words(other)
    return words - _SERIES == others - _SERIES != set() and words & _SERIES != others & _SERIES


def _title_words(title: str) -> set[str]:
    """Contest numbers and problem indices go: the same problem carries different ones in two divisions."""
    return {word for word in re.split(r"[^a-z0-9]+", title.lower()) if word.isalpha()}


def _contradict(one: Suite, other: Suite) -> bool:
    if (one.entry_point is None) != (other.entry_point is None):
        return False  # nothing to compare between standard input and arguments
    expected = {_key(case.input, one): case.expected for case in one.cases}
    return any(
        (known := expected.get(_key(case.input, other))) is not None and not _agree(known, case.expected, one)
        for case in other.cases
    )


def _key(text: str, suite: Suite) -> str:
    """An input without what collectors change: blanks, line ends, the spelling of JSON."""
    if suite.entry_point is None:
        return " ".join(text.split())
    try:
        return json_text(json_value(text, "input"), "input")
    except Unparsable:
        return text


def _agree(one: str, other: str, suite: Suite) -> bool:
    if suite.entry_point is None:
        one, other = one.casefold(), other.casefold()  # collectors disagree about YES and yes, as judges do
        return tokens.same(one, other) or tokens.same(other, one)
    return tokens.same_value(json_value(one, "output"), json_value(other, "output"))
