"""Extra inputs for a problem, made by small changes to the inputs of its tests.

The constraints on inputs are unknown, so a change preserves the number of lines, words and arguments, and numbers that
may be counts. Other numbers stay between the minimum (at most 1) and the maximum of the tests at that position. So most
of the inputs are valid.
"""

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

from curate.reading.dialects.literals import LiteralCall, parse_call
from sandbox import Suite

MAX_EXTRA_INPUTS = 24

_MAX_INPUT_CHARACTERS = 20_000  # longer inputs are slow and rarely reveal more
_MAX_CHANGES = 3  # per input
# Excludes strings of zeros and ones, because a change of the number would add other digits.
_INTEGER = re.compile(r"(?![01]{2,}\Z)-?(?:0|[1-9]\d{0,17})\Z")

Range = tuple[int, int]
Position = TypeVar("Position", int, str)


def generate_extra_inputs(suite: Suite, *, seed: int, max_count: int = MAX_EXTRA_INPUTS) -> list[str]:
    """Return at most `max_count` inputs that no test has. Deterministic for the same tests and seed."""
    has_calls = suite.entry_point is not None or suite.assertions is not None
    inputs = [
        case.input
        for case in suite.cases
        if len(case.input) <= _MAX_INPUT_CHARACTERS and (suite.assertions is None or case.expected)
    ]
    if not inputs:
        return []
    rng = random.Random(f"{seed} {len(inputs)} {inputs[0]}")
    changed = _change_calls(inputs, suite, rng) if has_calls else _change_lines(inputs, rng)
    known = {case.input for case in suite.cases}
    distinct = dict.fromkeys(text for text in islice(changed, 4 * max_count) if text not in known)
    return list(distinct)[:max_count]


def _change_lines(inputs: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Yield changed inputs for stdin. All numbers of a line have one range, since they are usually of one kind."""
    ranges = _find_ranges(
        (number, int(word)) for text in inputs for number, word in _enumerate_words(text) if _INTEGER.match(word)
    )
    while True:
        text = rng.choice(inputs)
        pieces = re.split(r"(\s+)", text)  # words at even indices, separators at odd ones
        line = _find_line_numbers(pieces)
        counts = _find_possible_counts(text)
        words = [i for i in range(0, len(pieces), 2) if pieces[i] and pieces[i] not in counts]
        if not words:
            yield text
            continue
        for _ in range(rng.randint(1, _MAX_CHANGES)):
            i = rng.choice(words)
            others_in_line = [other for other in words if line[other] == line[i] and other != i]
            if others_in_line and rng.random() < 0.5:
                other = rng.choice(others_in_line)
                if rng.random() < 0.5:
                    pieces[i], pieces[other] = pieces[other], pieces[i]
                else:
                    pieces[i] = pieces[other]
            # An earlier change may have turned a word into a number, in a line without a range.
            elif line[i] in ranges and _INTEGER.match(pieces[i]):
                pieces[i] = str(_change_number(int(pieces[i]), ranges[line[i]], rng))
            else:
                pieces[i] = _change_word(pieces[i], rng)
        yield "".join(pieces)


def _enumerate_words(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n")):
        for word in line.split():
            yield number, word


def _find_line_numbers(pieces: Sequence[str]) -> list[int]:
    numbers, number = [], 0
    for piece in pieces:
        numbers.append(number)
        number += piece.count("\n")
    return numbers


def _find_possible_counts(text: str) -> set[str]:
    """Return the numbers that may be counts: the number of lines, of words in a line, or of letters in a word."""
    lines = text.rstrip("\n").split("\n")
    sizes = {len(lines) - i for i in range(len(lines) + 1)}
    for line in lines:
        words = line.split()
        sizes.add(len(words))
        sizes |= {len(word) for word in words if not _INTEGER.match(word)}
    return {str(size) for size in sizes if size > 1}


def _parse_input(text: str, suite: Suite) -> LiteralCall:
    if suite.assertions is None:
        return LiteralCall("", dict(enumerate(json.loads(text))))
    return parse_call(text)


def _format_input(call: LiteralCall, suite: Suite) -> str:
    if suite.assertions is None:
        return json.dumps(list(call.arguments.values()), ensure_ascii=False)
    return call.text


def _change_calls(inputs: Sequence[str], suite: Suite, rng: random.Random) -> Iterator[str]:
    """Yield calls with changed arguments. Numbers have one range per function and argument."""
    calls: list[LiteralCall] = []
    for text in inputs:
        # An integer may exceed Python's limit of digits.
        with suppress(ValueError):
            calls.append(_parse_input(text, suite))
    ranges = _find_ranges(
        (f"{call.function} {i}", number)
        for call in calls
        for i, value in call.arguments.items()
        for number in _find_integers(value)
    )
    calls = [call for call in calls if call.arguments]
    while calls:
        call = rng.choice(calls)
        arguments = dict(call.arguments)
        for _ in range(rng.randint(1, _MAX_CHANGES)):
            i = rng.choice(list(arguments))
            arguments[i] = _change_value(arguments[i], ranges.get(f"{call.function} {i}", (0, 0)), rng)
        yield _format_input(LiteralCall(call.function, arguments), suite)


def _find_integers(value: Any) -> Iterator[int]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _find_integers(item)
    elif type(value) is int:
        yield value


def _change_value(value: Any, limits: Range, rng: random.Random) -> Any:
    """Return the value with one random change, of the same length, since another argument may be the length."""
    if type(value) is int:
        return _change_number(value, limits, rng)
    if isinstance(value, str):
        return _change_word(value, rng)
    if isinstance(value, tuple):
        return tuple(_change_value(list(value), limits, rng))
    if not isinstance(value, list) or not value:
        return value
    i, other = rng.randrange(len(value)), rng.randrange(len(value))
    changed = list(value)
    match rng.randrange(4):
        case 0:
            changed[i], changed[other] = changed[other], changed[i]
        case 1:
            changed[i] = changed[other]
        case _:
            changed[i] = _change_value(changed[i], limits, rng)
    return changed


def _find_ranges(numbers: Iterable[tuple[Position, int]]) -> dict[Position, Range]:
    """Return the minimum, at most 1, and the maximum of the numbers at each position.

    If larger numbers are valid, 1 nearly always is. Without it, tests with few distinct numbers would seem strong.
    """
    ranges: dict[Position, Range] = {}
    for i, number in numbers:
        low, high = ranges.get(i, (1, number))
        ranges[i] = min(low, number), max(high, number)
    return ranges


def _change_number(value: int, limits: Range, rng: random.Random) -> int:
    low, high = limits
    near = value + rng.choice((-1, 1))
    return rng.choice((min(max(near, low), high), low, high, rng.randint(low, high)))


def _change_word(word: str, rng: random.Random) -> str:
    """Replace a letter by another letter of the word, or swap two letters."""
    if not word:
        return word
    letters = list(word)
    i, other = rng.randrange(len(letters)), rng.randrange(len(letters))
    letters[i], letters[other] = letters[other], letters[i] if rng.random() < 0.5 else letters[other]
    return "".join(letters)
