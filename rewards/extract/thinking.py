"""Remove the thinking, `<think>...</think>`, from a completion. The first tag is often part of the prompt.

- A tag in quotes, in backticks or within a fenced block is text.
- `<think>` at the beginning or end of a line opens a thought, and the next `</think>` closes it. Text after an unclosed
  `<think>` is ignored.
- If `</think>` comes before any `<think>`, the thought began in the prompt. This first tag closes it at the beginning
  or end of a line, or before a fence or `<answer>`. In the middle of a line, or alone on a line of a block, the tag
  closes the thought only if an answer follows.
- After the first thought, `</think>` is text, and `<think>` opens another thought, which is also ignored.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rewards.extract.code_blocks import CodeBlock, parse_code_blocks

_TAG = re.compile(r"<(/?)think>")
_CLOSING_TAG = re.compile("</think>")
_QUOTES = "`'\""
_ENDS_LINE = re.compile(r"[ \t]*+(?:[\r\n]|\Z|<answer>|```|~~~)")
_MAX_INDENT_CHARACTERS = 64  # before a tag at the beginning of a line


@dataclass(frozen=True, slots=True)
class _Tag:
    begin: int
    end: int
    closing: bool
    begins_line: bool
    ends_line: bool
    in_block: bool  # only closed blocks count

    @property
    def alone(self) -> bool:
        return self.begins_line and self.ends_line

    @property
    def unambiguous(self) -> bool:
        """True if the text is certainly a tag."""
        return not self.in_block and (self.begins_line or self.ends_line)


def strip_thinking(text: str, has_answer: Callable[[str], bool]) -> str | None:
    """Return the completion without its thinking; None if the first `<think>` is never closed.

    has_answer   returns whether a text contains an answer

    Takes linear time on any text if `has_answer` does.
    """
    if "think>" not in text:
        return text
    has_checked = False
    for tag in _find_tags(text):
        if not tag.closing and tag.unambiguous:
            end = _find_thought_end(text, tag.end)
            return None if end is None else _strip_later_thoughts(text[end:])
        if not tag.closing or tag.in_block and not tag.alone:
            continue
        if tag.unambiguous or not has_checked and has_answer(text[tag.end :]):
            return _strip_later_thoughts(text[tag.end :])
        has_checked = True
    return text


def _strip_later_thoughts(text: str) -> str:
    kept: list[str] = []
    offset = 0
    for tag in _find_tags(text) if "<think>" in text else ():
        if tag.begin >= offset and tag.unambiguous and not tag.closing:
            kept.append(text[offset : tag.begin])
            end = _find_thought_end(text, tag.end)
            if end is None:
                return "".join(kept)
            offset = end
    return "".join(kept) + text[offset:]


def _find_thought_end(text: str, begin: int) -> int | None:
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
