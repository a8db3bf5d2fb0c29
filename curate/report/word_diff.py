"""Mark the words that only one of two texts has, to show the texts side by side."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

from curate.text.ngrams import normal

# The number of words is limited, because the comparison takes quadratic time.
MOST_WORDS = 700
_PIECE = re.compile(r"\w+|\W+")


def marked(one: str, other: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Return both texts as stretches, each with a flag that is true if the other text lacks it.

    Joined together, the stretches give the text again.

    Words are compared as in the search for near-duplicates, so case and anything between words make no difference.
    Words beyond MOST_WORDS count as not differing.
    """
    pieces, others = _PIECE.findall(one), _PIECE.findall(other)
    places, other_places = _words(pieces), _words(others)
    matcher = SequenceMatcher(
        None, [normal(pieces[p]) for p in places], [normal(others[p]) for p in other_places], autojunk=False
    )
    differing, other_differing = set(places), set(other_places)
    for match in matcher.get_matching_blocks():
        differing.difference_update(places[match.a : match.a + match.size])
        other_differing.difference_update(other_places[match.b : match.b + match.size])
    return _stretches(pieces, differing), _stretches(others, other_differing)


def _words(pieces: Sequence[str]) -> list[int]:
    return [place for place, piece in enumerate(pieces) if piece[0].isalnum() or piece[0] == "_"][:MOST_WORDS]


def _stretches(pieces: Sequence[str], differing: set[int]) -> list[tuple[str, bool]]:
    """Join the pieces. Text between two differing words counts as differing, so that a phrase is marked as a whole."""
    between = {place for place in range(len(pieces)) if place - 1 in differing and place + 1 in differing}
    marks = (place in differing or place in between for place in range(len(pieces)))
    grouped = groupby(zip(marks, pieces, strict=True), key=lambda pair: pair[0])
    return [("".join(piece for _, piece in group), mark) for mark, group in grouped]
