"""The fenced blocks of a text, as CommonMark has them and as models write them.

A block opens with three or more backticks or tildes at the beginning of a line; only spaces, list markers, the signs of
a block quote and `<answer>` may stand before them. It closes with a line of at least as many of the same sign and
nothing else, which is indented by at most three columns more. A block in a quote ends with the quote. All that is
CommonMark. Models need more:

- A fence of backticks may be glued to the last line of the block, and `</answer>` may follow a fence.
- In Python, backticks stand only in strings and comments. So a fence that is glued to code closes the block. One at the
  end of a comment does so only if the fences below it do not come out even otherwise. A fence in a string of three
  quotes is text if the string ends before the next block begins.
- A fence that names a language closes nothing. In an open block, it says that this one was never closed, and begins
  another.
- A block that is named Markdown is read as if its fences were not there.
- Tildes that nothing closes are an ornament.

An unclosed block does not count. Takes linear time on any text.
"""

import re
import textwrap
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

PYTHON = frozenset(("python", "python3", "py"))
_MARKDOWN = ("markdown", "md")
_ANSWER_ENDS = "</answer>"
_LINE = re.compile(
    r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++"
)  # as Python has lines: splitlines() knows others, also in literals
# Possessive throughout: none of these ever goes back.
_QUOTED = re.compile(r"(?:[ \t]*+>)++[ ]?+")
_OPENS = re.compile(
    r"(?P<before>(?:[ \t]*+(?:[-*+]|\d{1,9}+[.)])(?=[ \t]))*+[ \t]*+)(?:<answer>\s*+)?+"
    r"(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w+#.-]*+)[^`]*+\Z"
)
_FENCE = re.compile(r"(?P<before>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+\Z")
_PYTHON_SIGN = re.compile(
    r"(?P<long>\"\"\"|''')|(?P<short>\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+')|(?P<comment>#.*+|\"|')", re.DOTALL
)
_DEEP = 4  # columns; a fence so far to the right of its block's is text
_TAB = 4  # columns
_NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Block:
    """language: in lower case, empty where none is named; begin, end: places in the text, fences included."""

    language: str
    source: str
    begin: int
    end: int


@dataclass(slots=True)
class _Open:
    """A block that is being read."""

    language: str
    fence: str
    column: int
    quotes: int
    spaced: bool  # a space follows the signs of its quote, in each line
    place: int  # of the line that opened it
    lines: list[str] = field(default_factory=list)
    string: str = ""  # three quotes: a string that these began is not over

    @property
    def may_be_python(self) -> bool:
        return not self.language or self.language in PYTHON


def blocks(text: str) -> list[Block]:
    """The closed blocks that hold anything, in order."""
    lines = _LINE.findall(text)
    begins = list(accumulate(map(len, lines), initial=0))
    ahead = _Ahead(lines, begins, text)
    found: list[Block] = []
    block: _Open | None = None
    for place, line in enumerate(lines):
        if block is None and "```" not in line and "~~~" not in line:
            continue
        line = line.rstrip("\r\n")
        if block is not None and block.quotes:
            unquoted = _unquoted(line, block.quotes, spaced=block.spaced)
            if unquoted is not None or not line.strip():
                line = unquoted or ""
            else:
                block = None  # the quote is over, and its block was not closed
        if block is None or _begins_anew(line, block):
            block = _opened(line, place, ahead)
        elif (content := _last(line, block, place, ahead)) is None:
            block.lines.append(line)
        else:
            block.lines.append(content)
            if (source := _source(block)).strip():
                found.append(Block(block.language, source, begins[block.place], begins[place + 1]))
            block = None
    return found


class _Ahead:
    """What follows a line, for all of them at once."""

    def __init__(self, lines: list[str], begins: list[int], text: str) -> None:
        self._text, self._begins = text, begins
        self._long: dict[str, int] = {}  # by three quotes, the place in the text where they come next
        self._places: list[int] = []  # of fences that name a language or stand alone, from the last line to the first
        self._odd = [False]  # the number of those alone, up to the next that names a language
        self._language = [_NEVER]  # where in the text that one is
        self._last = {"`": -1, "~": -1}  # place of the last fence alone
        for place in range(len(lines) - 1, -1, -1):
            if "```" not in lines[place] and "~~~" not in lines[place]:
                continue
            quoted = _QUOTED.match(lines[place])
            line = _without_tag(lines[place][quoted.end() :] if quoted else lines[place])
            fence = _FENCE.match(line)
            opens = None if fence else _OPENS.match(line)
            if fence:
                self._last[fence["fence"][0]] = max(self._last[fence["fence"][0]], place)
            if fence and fence["fence"][0] == "`" and _width(fence["before"]) < _DEEP:
                self._note(place, not self._odd[-1], self._language[-1])
            elif opens and opens["language"] and opens["fence"][0] == "`" and _width(opens["before"]) < _DEEP:
                self._note(place, False, begins[place])
        self._places.reverse()
        self._odd.reverse()
        self._language.reverse()

    def _note(self, place: int, odd: bool, language: int) -> None:
        self._places.append(place)
        self._odd.append(odd)
        self._language.append(language)

    def closes_later(self, place: int) -> bool:
        """Whether the fences behind this line come out even only if it does not close its block."""
        return self._odd[bisect_right(self._places, place)]

    def fence_later(self, sign: str, place: int) -> bool:
        return self._last[sign] > place

    def ends_later(self, string: str, place: int) -> bool:
        """Whether a string that these three quotes began ends behind this line, and its block behind that."""
        begin = self._begins[place + 1]
        next_ = self._long.get(string, -1)
        if next_ < begin:
            next_ = self._text.find(string, begin)
            self._long[string] = next_ = _NEVER if next_ < 0 else next_
        language = self._language[bisect_right(self._places, place)]
        return next_ < min(language, self._begins[max(self._last["`"], 0)])


def _unquoted(line: str, quotes: int, *, spaced: bool) -> str | None:
    """The line without so many signs of a block quote; None if it has not as many."""
    for _ in range(quotes):
        sign, quote, line = line.partition(">")
        if not quote or sign.strip():
            return None
    return line.removeprefix(" ") if spaced else line


def _opened(line: str, place: int, ahead: _Ahead) -> _Open | None:
    quoted = _QUOTED.match(line)
    opens = _OPENS.match(line, quoted.end() if quoted else 0)
    if opens is None or opens["language"].lower() in _MARKDOWN:
        return None
    if opens["fence"][0] == "~" and not ahead.fence_later("~", place):
        return None
    quotes = quoted[0].count(">") if quoted else 0
    spaced = quoted is not None and quoted[0].endswith(" ")
    return _Open(opens["language"].lower(), opens["fence"], _width(opens["before"]), quotes, spaced, place)


def _begins_anew(line: str, block: _Open) -> bool:
    """Whether the block was never closed, since the line opens one and says of what."""
    opens = _OPENS.match(line) if "```" in line or "~~~" in line else None
    if opens is None or not opens["language"] or _width(opens["before"]) >= block.column + _DEEP:
        return False
    if opens["fence"][0] == block.fence[0]:
        return len(opens["fence"]) >= len(block.fence)
    return not block.language and block.fence[0] == "~"  # tildes around blocks are an ornament


def _last(line: str, block: _Open, place: int, ahead: _Ahead) -> str | None:
    """What of the line is in the block, if it is the one that closes the block; else None."""
    string_before, comment = block.string, len(line) + 1
    if block.may_be_python and (string_before or '"' in line or "'" in line or "#" in line):
        comment, block.string = _read(line, string_before)
    if block.fence not in line:
        return None
    line = _without_tag(line)
    fence = _FENCE.match(line)
    if fence and fence["fence"][0] == block.fence[0] and _width(fence["before"]) < block.column + _DEEP:
        if len(fence["fence"]) < len(block.fence):
            return None
        return None if string_before and ahead.ends_later(string_before, place) else ""
    if block.fence[0] == "~" or not line.endswith(block.fence):
        return None
    if block.string:
        return None if ahead.ends_later(block.string, place) else line.rstrip("`")
    in_comment = len(line.rstrip("`")) > comment
    return None if in_comment and ahead.closes_later(place) else line.rstrip("`")


def _read(line: str, string: str) -> tuple[int, str]:
    """Where the comment at the end of a line of Python begins; the three quotes of a string that goes on behind it."""
    at = 0
    while True:
        if string:
            at = next((sign.end() for sign in _ENDS[string].finditer(line, at) if sign[0] == string), -1)
            if at < 0:
                return len(line) + 1, string
        sign = _PYTHON_SIGN.search(line, at)
        if sign is None:
            return len(line) + 1, ""
        if sign["comment"]:
            return sign.start(), ""
        at, string = sign.end(), sign["long"] or ""


_ENDS = {string: re.compile(rf"\\.|{string}") for string in ('"""', "'''")}


def _without_tag(line: str) -> str:
    return line.rstrip().removesuffix(_ANSWER_ENDS).rstrip()


def _width(before: str) -> int:
    return len(before.expandtabs(_TAB)) if before else 0


def _source(block: _Open) -> str:
    lines = [_outdented(line, block.column) for line in block.lines] if block.column else block.lines
    return textwrap.dedent("\n".join(lines)).strip("\n") + "\n"


def _outdented(line: str, column: int) -> str:
    """The line without so many columns of its indentation, or all of it where there is less. Of a tab that goes on
    behind them, the rest is left as spaces."""
    at = width = 0
    while width < column and line[at : at + 1] in (" ", "\t"):
        width += _TAB - width % _TAB if line[at] == "\t" else 1
        at += 1
    return " " * (width - column) + line[at:]
