"""What a model says, without what it thinks: `<think>...</think>`, whose beginning often stands in the prompt.

- A tag in quotes or backticks is spoken of, not used. Neither is a tag within a fenced block.
- `<think>` at the beginning or end of a line begins a thought, and the next `</think>` ends it. A thought that does not
  end has nothing behind it.
- If `</think>` comes before any `<think>`, the thought began in the prompt, and this first one ends it: if it stands at
  the beginning or end of a line, or before a fence or `<answer>`. One amid a line, or alone on a line of a block, ends
  the thought only if an answer follows. It is text otherwise.
- Behind the first thought, `</think>` is text, and `<think>` begins another thought, of which nothing counts either.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rewards.fences import Block, blocks

_TAG = re.compile(r"<(/?)think>")
_CLOSES = re.compile("</think>")
_QUOTES = "`'\""
_ENDS_LINE = re.compile(r"[ \t]*+(?:[\r\n]|\Z|<answer>|```|~~~)")
_FAR = 64  # characters; further back nobody indents


@dataclass(frozen=True, slots=True)
class _Tag:
    begin: int
    end: int
    closing: bool
    begins_line: bool
    ends_line: bool
    block: bool  # within a block that is closed

    @property
    def alone(self) -> bool:
        return self.begins_line and self.ends_line

    @property
    def firm(self) -> bool:
        return not self.block and (self.begins_line or self.ends_line)


def behind_thought(text: str, answers: Callable[[str], bool]) -> str | None:
    """The text without thoughts; None: a thought has no end. `answers` tells whether there is an answer in a text.

    Takes linear time on any text, if `answers` does.
    """
    if "think>" not in text:
        return text
    asked = False
    for tag in _tags(text):
        if not tag.closing and tag.firm:
            end = _end_of_thought(text, tag.end)
            return None if end is None else _without_thoughts(text[end:])
        if not tag.closing or tag.block and not tag.alone:
            continue
        if tag.firm or not asked and answers(text[tag.end :]):
            return _without_thoughts(text[tag.end :])
        asked = True
    return text


def _without_thoughts(text: str) -> str:
    kept: list[str] = []
    at = 0
    for tag in _tags(text) if "<think>" in text else ():
        if tag.begin >= at and tag.firm and not tag.closing:
            kept.append(text[at : tag.begin])
            end = _end_of_thought(text, tag.end)
            if end is None:
                return "".join(kept)
            at = end
    return "".join(kept) + text[at:]


def _end_of_thought(text: str, begin: int) -> int | None:
    return next((match.end() for match in _CLOSES.finditer(text, begin) if not _quoted(text, match)), None)


def _quoted(text: str, match: re.Match[str]) -> bool:
    begin, end = match.span()
    return begin > 0 and end < len(text) and text[begin - 1] in _QUOTES and text[end] in _QUOTES


def _tags(text: str) -> Iterator[_Tag]:
    """The tags that are not quoted."""
    places = iter([*blocks(text), Block("", "", len(text), len(text) + 1)])
    block = next(places)
    for match in _TAG.finditer(text):
        if _quoted(text, match):
            continue
        begin, end = match.span()
        while block.end <= begin:
            block = next(places)
        before = text[max(begin - _FAR, 0) : begin].rstrip(" \t")
        begins_line = before[-1] in "\r\n" if before else begin < _FAR
        ends_line = _ENDS_LINE.match(text, end) is not None
        yield _Tag(begin, end, bool(match[1]), begins_line, ends_line, block.begin <= begin)
