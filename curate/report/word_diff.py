"""Marks for the words that differ between two texts, which the page shows side by side."""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import groupby, islice

from curate.text.ngrams import normalize

MAX_WORDS = 700  # maximum number of words to compare, because the comparison takes quadratic time
_PIECE = re.compile(r"\w+|\W+")
_TOKEN = re.compile(r"\S+|\s+")


def mark_differences(
    one: str, other: str, *, exact: bool = False
) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Divide both texts into segments, each with a flag: whether the other text lacks it.

    exact: whether to compare whole tokens between whitespace, as for outputs of programs; by default, compares letters
           and digits without case, as in the search for near-duplicates

    Words beyond MAX_WORDS have no marks.
    """
    pieces, others = ((_TOKEN if exact else _PIECE).findall(text) for text in (one, other))
    word_indices, other_word_indices = _find_words(pieces, exact), _find_words(others, exact)
    compared = [pieces[index] for index in word_indices], [others[index] for index in other_word_indices]
    words, other_words = compared if exact else (list(map(normalize, side)) for side in compared)
    differing, other_differing = set(word_indices), set(other_word_indices)
    for begin, other_begin, size in _find_matches(words, other_words, exact):
        differing.difference_update(word_indices[begin : begin + size])
        other_differing.difference_update(other_word_indices[other_begin : other_begin + size])
    return _mark_segments(pieces, differing), _mark_segments(others, other_differing)


def _find_words(pieces: Sequence[str], exact: bool) -> list[int]:
    words = (
        index
        for index, piece in enumerate(pieces)
        if (not piece.isspace() if exact else piece[0].isalnum() or piece[0] == "_")
    )
    return list(islice(words, MAX_WORDS))


def _find_matches(words: Sequence[str], others: Sequence[str], exact: bool) -> Iterable[tuple[int, int, int]]:
    """Yield sequences of equal words: their start in both lists, and their length."""
    # Outputs with equal numbers of words probably have the same form.
    if exact and len(words) == len(others):
        pairs = enumerate(zip(words, others, strict=True))
        return ((index, index, 1) for index, (word, other) in pairs if word == other)
    return SequenceMatcher(None, words, others, autojunk=False).get_matching_blocks()


def _mark_segments(pieces: Sequence[str], differing: set[int]) -> list[tuple[str, bool]]:
    """Join the pieces into segments. Marks the text between two differing words too, so a phrase is one segment."""
    between = {index for index in range(len(pieces)) if index - 1 in differing and index + 1 in differing}
    marks = (index in differing or index in between for index in range(len(pieces)))
    grouped = groupby(zip(marks, pieces, strict=True), key=lambda pair: pair[0])
    return [("".join(piece for _, piece in group), mark) for mark, group in grouped]
