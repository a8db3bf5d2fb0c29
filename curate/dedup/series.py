"""Two statements alike: the same problem twice, or two problems of one series?

"Two Sum" and "Two Sum II" share nearly all their words and are different problems. What tells them apart is
looked for in what the rows hold anyway: their titles, the version that they say they are, the functions they ask
for, and their tests.
"""

import re

from curate.problem import Problem
from curate.reading.values import Unparsable, json_text, json_value
from sandbox import Suite
from sandbox.checkers import tokens

_SERIES = {"i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "easy", "medium", "hard"}
_VERSION = re.compile(r"\bthis is (?:the|an?) (\w+) version of (?:the|this|a) problem", re.IGNORECASE)
_SAME_VERSION = {"easier": "easy", "simple": "easy", "simpler": "easy", "simplified": "easy", "harder": "hard"}


def difference(one: Problem, other: Problem) -> str | None:
    """What shows that two problems with similar statements are not the same one; None if nothing does."""
    if _of_one_series(one.title, other.title):
        return "their titles number them"
    if _versions(one.statement, other.statement):
        return "they say that they are different versions of a problem"
    if one.tests.entry_point and other.tests.entry_point and one.tests.entry_point != other.tests.entry_point:
        return "they ask for different functions"
    if (passed := _arguments(one.tests)) and (others := _arguments(other.tests)) and passed.isdisjoint(others):
        return "they call their functions with different numbers of arguments"
    if _contradict(one.tests, other.tests):
        return "they expect different answers to the same input"
    return None


def _of_one_series(one: str, other: str) -> bool:
    """Titles of the same words but for the part: `... i` and `... ii`, `... easy` and `... hard`."""
    if not one or not other:
        return False
    words, others = _title_words(one), _title_words(other)
    return words - _SERIES == others - _SERIES != set() and words & _SERIES != others & _SERIES


def _title_words(title: str) -> set[str]:
    """Contest numbers and problem indices go: the same problem carries different ones in two divisions."""
    return {word for word in re.split(r"[^a-z0-9]+", title.lower()) if word.isalpha()}


def _versions(one: str, other: str) -> bool:
    """`This is the easy version of the problem` and the same with another word than easy."""
    word, another = _VERSION.search(one), _VERSION.search(other)
    if word is None or another is None:
        return False
    words = {found[1].lower() for found in (word, another)}
    return len({_SAME_VERSION.get(word, word) for word in words}) > 1


def _arguments(suite: Suite) -> set[int]:
    """How many arguments its first tests pass; none where there is no function or a test cannot be read."""
    if suite.entry_point is None:
        return set()
    try:
        return {len(json_value(case.input, "input")) for case in suite.cases[:10]}
    except (Unparsable, TypeError):
        return set()


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
