r"""Rejection of math problems without a single final answer, with one of these reasons:

proof            the question asks for a proof
no_answer        the source has no answer
multiple_choice  the question offers choices, so a guess is often right
several_parts    the question or its answer has several parts
image            the question refers to a missing figure; a figure in Asymptote is text that a model can read
"""

import re
from collections.abc import Sequence

from curate.reading.values import ParseError, shorten

_MISSING = frozenset({"", "notfound", "not found", "n/a", "none", "null", "nan", "unknown", "no answer"})
_PROOFS = frozenset({"proof", "see proof", "see solution", "proved", "proven"})
_PROVE = re.compile(r"(?:^|[.:;,]\s|\n)\W{0,20}(?:prove|show|demonstrate)\b(?! your)", re.IGNORECASE)
_ASKS = re.compile(
    r"\?|\b(?:find|determine|compute|calculate|evaluate|solve|simplify|what|how (?:many|much)|express|give|list)\b",
    re.IGNORECASE,
)
# The label of a part begins a line or follows a sentence.
_LINE = r"(?:^|[\n.:;?!$])\s{0,20}(?:\*\*|\\item)?\s{0,20}"
_PARTS = [
    [re.compile(rf"{_LINE}{label}", re.IGNORECASE) for label in labels]
    for labels in (
        (r"\(?a\)", r"\(?b\)"),
        (r"\(?1\)", r"\(?2\)"),
        (r"\(?i\)", r"\(?ii\)"),
        ("[ⅰⅠ①⑴]", "[ⅱⅡ②⑵]"),
        (r"part (?:a|1|i)\b", r"part (?:b|2|ii)\b"),
    )
]
_PARTS_OF_ANSWER = [
    re.compile(r"^\W{0,20}(?:text\{)?\W{0,20}(?:part )?(?:a|1|i)\s?\)", re.IGNORECASE),
    re.compile(r"(?<![\w\\])(?:b|2|ii)\s?\)", re.IGNORECASE),
]
_CHOICES = [
    [re.compile(rf"(?<![\w\\]){begin}{letter}{end}") for letter in "ABC"]
    for begin, end in ((r"\(", r"\)"), (r"(?:\\textbf|\\text|\\mathrm)\{\(?", r"[.)}]"), (r"(?<=\s)", r"[.):]\s"))
]
_FIGURE = re.compile(
    r"\b(?:in|from|by|see) (?:the |this )?(?:following |above |adjoining |accompanying |given )?"
    r"(?:figure|diagram|picture|drawing)\b|\b(?:figure|diagram|picture|drawing|graph) "
    r"(?:shown|below|above|at (?:the )?(?:right|left))\b|\bas shown\b|\bshown (?:below|above)\b",
    re.IGNORECASE,
)
_ASYMPTOTE = "[asy]"


def check_question(statement: str, answer: str) -> None:
    """Raise ParseError, with the reason, for a problem without a single final answer. Takes linear time on any text."""
    normalized = answer.strip().strip("$.").strip().lower()
    if normalized in _PROOFS or (_PROVE.search(statement) and not _ASKS.search(statement)):
        raise ParseError("it asks for a proof, and only final answers are compared", "proof")
    if normalized in _MISSING:
        raise ParseError("the source has no answer" + (f": {normalized}" if normalized else ""), "no_answer")
    if any(_are_in_order(labels, statement) for labels in _CHOICES):
        raise ParseError("it offers choices, and a guess is often right", "multiple_choice")
    if any(_are_in_order(labels, statement) for labels in _PARTS) or _are_in_order(_PARTS_OF_ANSWER, answer):
        raise ParseError("it has several parts, and only one final answer is compared", "several_parts")
    if (figure := _FIGURE.search(statement)) and _ASYMPTOTE not in statement:
        raise ParseError(f"it refers to a figure: {shorten(figure[0])}", "image")


def _are_in_order(labels: Sequence[re.Pattern[str]], text: str) -> bool:
    offset = 0
    for label in labels:
        if (match := label.search(text, offset)) is None:
            return False
        offset = match.end()
    return True
