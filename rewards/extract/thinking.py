"""Removal of the thinking, `<think>...</think>`, from a completion. The first tag is often part of the prompt.

- A tag in quotes, in backticks or within a fenced block is text.
- `<think>` at the beginning or end of a line begins the thinking, and the next `</think>` ends it. If the latter is
  missing, the rest of the text is thinking.
- If `</think>` comes before any `<think>`, the thinking began in the prompt. This first tag ends it at the beginning or
  end of a line, or before a fence or `<answer>`. In the middle of a line, or alone on a line of a block, the tag ends
  the thinking only if an answer follows.
- After the first `</think>` that ends thinking, another one is text, and `<think>` begins further thinking.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rewards.extract.code_blocks import CodeBlock, parse_code_blocks

_TAG = re.compile(r"<(/?)think>")
_CLOSING_TAG = re.compile("</think>")
_QUOTES = "`'\""
_ENDS_LINE = re.compile(r"[ \t]*+(?:[\r\n]|\Z|<answer>|```|~~~)")
_MAX_INDENT_CHARACTERS = 64  # whitespace before a tag at the beginning of a line


@dataclass(frozen=True, slots=True)
class _Tag:
    """`<think>` or `</think>`. in_block: whether it is in a closed fenced block"""

    begin: int
    end: int
    is_closing: bool
    begins_line: bool
    ends_line: bool
    in_block: bool

    @property
    def fills_line(self) -> bool:
        return self.begins_line and self.ends_line

    @property
    def is_unambiguous(self) -> bool:
        """True if it is certainly a tag rather than text."""
        return not self.in_block and (self.begins_line or self.ends_line)


def strip_thinking(text: str, has_answer: Callable[[str], bool]) -> str | None:
    """Return the completion without its thinking; None if the first `<think>` is never closed.

    has_answer: returns whether a text contains an answer, such as a program

    Takes linear time on any text if `has_answer` does.
    """
    if "think>" not in text:
        return text
    has_checked = False
    for tag in _find_tags(text):
        if not tag.is_closing and tag.is_unambiguous:
            end = _find_thinking_end(text, tag.end)
            return None if end is None else _strip_further_thinking(text[end:])
        if not tag.is_closing or tag.in_block and not tag.fills_line:
            continue
        if tag.is_unambiguous or not has_checked and has_answer(text[tag.end :]):
            return _strip_further_thinking(text[tag.end :])
        has_checked = True
    return text


def _strip_further_thinking(text: str) -> str:
    parts: list[str] = []
    offset = 0
    for tag in _find_tags(text) if "<think>" in text else ():
        if tag.begin >= offset and tag.is_unambiguous and not tag.is_closing:
            parts.append(text[offset : tag.begin])
            end = _find_thinking_end(text, tag.end)
            if end is None:
                return "".join(parts)
            offset = end
    return "".join(parts) + text[offset:]


def _find_thinking_end(text: str, begin: int) -> int | None:
    return next((match.end() for match in _CLOSING_TAG.finditer(text, begin) if not _is_quoted(text, match)), None)


def _is_quoted(text: str, match: re.Match[str]) -> bool:
    begin, end = match.span()
    return begin > 0 and end < len(text) and text[begin - 1] in _QUOTES and text[end] in _QUOTES


def _find_tags(text: str) -> Iterator[_Tag]:
    """Yield the tags that are not quoted."""
    sentinel = CodeBlock("", "", len(text), len(text) + 1)
    remaining = iter([*parse_code_blocks(text), sentinel])
    block = next(remaining)
    for match in _TAG.finditer(text):
        if _is_quoted(text, match):
            continue
        begin, end = match.span()
        while block.end <= begin:
            block = next(remaining)
        before = text[max(begin - _MAX_INDENT_CHARACTERS, 0) : begin].rstrip(" \t")
        begins_line = before[-1] in "\r\n" if before else begin < _MAX_INDENT_CHARACTERS
        ends_line = _ENDS_LINE.match(text, end) is not None
        yield _Tag(begin, end, bool(match[1]), begins_line, ends_line, block.begin <= begin)
