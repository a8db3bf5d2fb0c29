"""Differences between two problems of one series with similar statements, such as "Two Sum" and "Two Sum II"."""

import re

from curate.problem import Problem
from curate.reading.values import ParseError, dump_json, parse_json
from sandbox import Suite
from sandbox.checkers import tokens

_SERIES = {"i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "easy", "medium", "hard"}
_VERSION = re.compile(r"\bthis is (?:the|an?) (\w+) version of (?:the|this|a) problem", re.IGNORECASE)
_SAME_VERSION = {"easier": "easy", "simple": "easy", "simpler": "easy", "simplified": "easy", "harder": "hard"}


def find_difference(first: Problem, second: Problem) -> str | None:
    """Return a reason to treat two problems with similar statements as different; None if there is none."""
    if _belong_to_series(first.title, second.title):
        return "their titles number them"
    if _are_different_versions(first.statement, second.statement):
        return "their statements name different versions of one problem"
    if (names := first.tests.called_names) and (other_names := second.tests.called_names) and names != other_names:
        return "they ask for different functions"
    counts, other_counts = _count_arguments(first.tests), _count_arguments(second.tests)
    if counts and other_counts and counts.isdisjoint(other_counts):
        return "they call their functions with different numbers of arguments"
    numbers, other_numbers = _find_numbers(first.statement), _find_numbers(second.statement)
    if first.expected_answer != second.expected_answer and numbers != other_numbers:
        return "they expect different answers to questions with different numbers"
    if _have_contradictions(first.tests, second.tests):
        return "they expect different answers to the same input"
    return None


def _belong_to_series(first: str, second: str) -> bool:
    """Return whether titles differ only in the name of the part, as in `... i` and `... ii`."""
    if not first or not second:
        return False
    words, other_words = _split_title(first), _split_title(second)
    return words - _SERIES == other_words - _SERIES != set() and words & _SERIES != other_words & _SERIES


def _split_title(title: str) -> set[str]:
    """Return the words of a title without contest numbers and problem indices, which vary between copies."""
    return {word for word in re.split(r"[^a-z0-9]+", title.lower()) if word.isalpha()}


def _are_different_versions(first: str, second: str) -> bool:
    """Return whether the statements name different versions, as in `This is the easy version of the problem`."""
    version, other_version = _VERSION.search(first), _VERSION.search(second)
    if version is None or other_version is None:
        return False
    names = {match[1].lower() for match in (version, other_version)}
    return len({_SAME_VERSION.get(name, name) for name in names}) > 1


def _find_numbers(statement: str) -> list[str]:
    return re.findall(r"\d+", statement)


def _count_arguments(suite: Suite) -> set[int]:
    """Return the numbers of arguments in the first tests; empty without a function or for an unreadable test."""
    if suite.entry_point is None:
        return set()
    try:
        return {len(parse_json(case.input, "input")) for case in suite.cases[:10]}
    except (ParseError, TypeError):
        return set()


def _have_contradictions(first: Suite, second: Suite) -> bool:
    kinds = {(suite.entry_point is None, suite.assertions is None) for suite in (first, second)}
    if len(kinds) > 1:
        return False  # tests by standard input, arguments and Python code are not comparable
    expected = {_normalize_input(case.input, first): case.expected for case in first.cases}
    for case in second.cases:
        known = expected.get(_normalize_input(case.input, second))
        if known is not None and not _are_equal_outputs(known, case.expected, first):
            return True
    return False


def _normalize_input(text: str, suite: Suite) -> str:
    """Normalize whitespace and the formatting of JSON, in which sources differ."""
    if suite.entry_point is None:
        return " ".join(text.split())
    try:
        return dump_json(parse_json(text, "input"), "input")
    except ParseError:
        return text


def _are_equal_outputs(first: str, second: str, suite: Suite) -> bool:
    if suite.assertions is not None:
        return first == second
    if suite.entry_point is None:
        first, second = first.casefold(), second.casefold()  # sources differ in the case of outputs such as YES
        return tokens.same_output(first, second) or tokens.same_output(second, first)
    return tokens.same_value(parse_json(first, "output"), parse_json(second, "output"))
