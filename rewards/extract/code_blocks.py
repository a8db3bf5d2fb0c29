"""The fenced blocks of a text, as CommonMark defines them and as models write them.

A block opens with three or more backticks or tildes at the beginning of a line; only spaces, list markers, quote
markers (`>`) and `<answer>` may precede them. A label, the name of a language, may follow. A line of at least as many
of the same character, indented by at most three columns more, closes the block. A block in a quote ends with the quote.

Rules in addition to CommonMark's, for texts of models:

- Text may precede an opening fence of backticks if only a label follows. The label must be Python or C++, or the fences
  below could not be paired otherwise.
- A label may be on the line below its fence.
- A closing fence of backticks may be on the last line of code. `</answer>` and end-of-text tokens, such as `</s>` and
  `<|im_end|>`, may follow a fence.
- In Python, backticks occur only in strings and comments, so a fence right after code closes the block. A fence at
  the end of a comment closes it only if the fences below could not be paired otherwise. A fence in a triple-quoted
  string is text if the string ends before the next block begins.
- A fence with a label never closes a block. Within an unclosed block, it opens another one.
- The fences of a block labeled Markdown are ignored.
- Unclosed tildes are decoration.

An unclosed block does not count. Parsing takes linear time on any text.
"""

import re
import textwrap
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

PYTHON, CPP = "python", "cpp"
_MARKDOWN = ("markdown", "md")
_BYTE_ORDER_MARK = "\ufeff"
# All quantifiers are possessive, so no pattern backtracks. Lines end as in Python source; str.splitlines() also splits
# at characters that occur in literals.
_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
_LABELS = {
    PYTHON: re.compile(r"(?:c?python|py|pypy)(?:3(?:\.\d++)*+)?+"),
    CPP: re.compile(r"(?:cpp|c\+\+|cc|cxx)(?:\d\d)?+"),
}
_QUOTED = re.compile(r"(?:[ \t]*+>)++[ ]?+")
_OPENS = re.compile(
    r"(?P<before>(?:[ \t]*+(?:[-*+]|\d{1,9}+[.)])(?=[ \t]))*+[ \t]*+)(?:<answer>\s*+)?+"
    r"(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w+#.-]*+)[^`]*+\Z"
)
_OPENS_AFTER_TEXT = re.compile(
    r"(?P<before>(?:[ \t]*+(?:[-*+]|\d{1,9}+[.)])(?=[ \t]))*+[ \t]*+)(?:[^`]|`{1,2}(?!`))++"
    r"(?P<fence>`{3,}+)[ \t]*+(?P<language>[\w+#.-]*+)[ \t]*+\Z"
)
_TEXT_ENDS = re.compile(r"(?:\s*+(?:</answer>|</s>|<eos>|<end_of_turn>|<[|｜][\w▁]{1,32}+[|｜]>))*+\s*+")
_FENCE = re.compile(r"(?P<before>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+\Z")
_PYTHON_TOKEN = re.compile(
    r"(?P<long>\"\"\"|''')|(?P<short>\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+')|(?P<comment>#.*+|\"|')", re.DOTALL
)
_MAX_EXTRA_INDENT = 4  # columns more than the block; a fence with this indentation or more is text
_TAB_WIDTH = 4  # columns
_NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A closed block of a text.

    language  PYTHON, CPP, or another label in lower case; empty without a label
    begin     offset of the opening fence in the text
    end       offset after the line of the closing fence
    """

    language: str
    source: str
    begin: int
    end: int


@dataclass(slots=True)
class _OpenBlock:
    """A block without a closing fence so far.

    column        indentation of the opening fence, in columns
    quote_depth   number of quote markers (`>`) before each line
    strips_space  whether each line has a space after its quote markers
    begin         offset of the opening fence in the text
    string        triple quotes of an open string; empty for none
    """

    language: str
    fence: str
    column: int
    quote_depth: int
    strips_space: bool
    begin: int
    lines: list[str] = field(default_factory=list)
    string: str = ""

    @property
    def may_be_python(self) -> bool:
        return self.language in ("", PYTHON)


def parse_code_blocks(text: str) -> list[CodeBlock]:
    """Return the closed code blocks that are not empty, in order."""
    lines = _LINE.findall(text)
    offsets = list(accumulate(map(len, lines), initial=0))
    ahead = _LookAhead(lines, offsets, text)
    closed: list[CodeBlock] = []
    block: _OpenBlock | None = None
    for number, line in enumerate(lines):
        if block is None and not _may_hold_fence(line):
            continue
        line = line.rstrip("\r\n")
        if block is not None and block.quote_depth:
            unquoted = _strip_quote_markers(line, block.quote_depth, strip_space=block.strips_space)
            if unquoted is not None or not line.strip():
                line = unquoted or ""
            else:
                block = None  # the quote ended before the block closed
        if block is None or _is_next_opening(line, block):
            block = _open_block(line, number, offsets[number], ahead)
        elif (last_line := _close_block(line, block, number, ahead)) is None:
            block.lines.append(line)
        else:
            block.lines.append(last_line)
            language, source = _read_label_line(block.language, _join_source(block))
            if source.strip():
                closed.append(CodeBlock(language, source, block.begin, offsets[number + 1]))
            block = None
    return closed


def _may_hold_fence(line: str) -> bool:
    return "```" in line or "~~~" in line


class _LookAhead:
    """A look-ahead to fences and triple quotes below a line, computed in one pass. A bare fence has no label."""

    def __init__(self, lines: list[str], offsets: list[int], text: str) -> None:
        self._text, self._offsets = text, offsets
        self._next_quotes: dict[str, int] = {}  # offset of the next triple quotes, by kind
        self._last_bare = {"`": -1, "~": -1}  # index of the last line with a bare fence
        # Three lists, filled backwards: indices of lines with a bare or labeled backtick fence; whether the number of
        # bare fences from there to the next labeled one is odd; offset of the next labeled fence. The last two lists
        # have an additional entry for the end of the text.
        self._line_numbers: list[int] = []
        self._is_odd = [False]
        self._next_labeled = [_NEVER]
        for number in range(len(lines) - 1, -1, -1):
            if _may_hold_fence(lines[number]):
                self._add_line(lines[number], number)
        self._line_numbers.reverse()
        self._is_odd.reverse()
        self._next_labeled.reverse()

    def _add_line(self, line: str, number: int) -> None:
        quoted = _QUOTED.match(line)
        line = _strip_end_tokens(line[quoted.end() :] if quoted else line)
        fence = _FENCE.match(line)
        opens = None if fence else _OPENS.match(line)
        if fence:
            self._last_bare[fence["fence"][0]] = max(self._last_bare[fence["fence"][0]], number)
        if fence and fence["fence"][0] == "`" and _measure_width(fence["before"]) < _MAX_EXTRA_INDENT:
            self._append(number, is_odd=not self._is_odd[-1], next_labeled=self._next_labeled[-1])
        elif (
            opens
            and opens["language"]
            and opens["fence"][0] == "`"
            and _measure_width(opens["before"]) < _MAX_EXTRA_INDENT
        ):
            self._append(number, is_odd=False, next_labeled=self._offsets[number])

    def _append(self, number: int, *, is_odd: bool, next_labeled: int) -> None:
        self._line_numbers.append(number)
        self._is_odd.append(is_odd)
        self._next_labeled.append(next_labeled)

    def has_unpaired_fence(self, number: int) -> bool:
        """Return whether one of the bare fences between this line and the next labeled fence has no partner."""
        return self._is_odd[bisect_right(self._line_numbers, number)]

    def has_bare_fence(self, sign: str, number: int) -> bool:
        return self._last_bare[sign] > number

    def has_string_and_block_end(self, quotes: str, number: int) -> bool:
        """Return whether an open string ends below this line, and its block ends below the string.

        quotes: the triple quotes of the string
        """
        begin = self._offsets[number + 1]
        next_quotes = self._next_quotes.get(quotes, -1)
        if next_quotes < begin:
            next_quotes = self._text.find(quotes, begin)
            self._next_quotes[quotes] = next_quotes = _NEVER if next_quotes < 0 else next_quotes
        next_labeled = self._next_labeled[bisect_right(self._line_numbers, number)]
        return next_quotes < min(next_labeled, self._offsets[max(self._last_bare["`"], 0)])


def _strip_quote_markers(line: str, depth: int, *, strip_space: bool) -> str | None:
    """Return the line without `depth` quote markers; None if it has fewer."""
    for _ in range(depth):
        before, marker, line = line.partition(">")
        if not marker or before.strip():
            return None
    return line.removeprefix(" ") if strip_space else line


def _open_block(line: str, number: int, offset: int, ahead: _LookAhead) -> _OpenBlock | None:
    """Return the block that the line opens; None for no block.

    number  index of the line
    offset  offset of the line in the text
    """
    quoted = _QUOTED.match(line)
    position = quoted.end() if quoted else 0
    opens = _OPENS.match(line, position)
    after_text = _OPENS_AFTER_TEXT.match(line, position) if opens is None else None
    if after_text and (_normalize_label(after_text["language"]) in _LABELS or ahead.has_unpaired_fence(number)):
        opens = after_text
    if opens is None or opens["language"].lower() in _MARKDOWN:
        return None
    if opens["fence"][0] == "~" and not ahead.has_bare_fence("~", number):
        return None
    depth = quoted[0].count(">") if quoted else 0
    return _OpenBlock(
        _normalize_label(opens["language"]),
        opens["fence"],
        column=_measure_width(opens["before"]),
        quote_depth=depth,
        strips_space=quoted is not None and quoted[0].endswith(" "),
        begin=offset + opens.start("fence"),
    )


def _normalize_label(label: str) -> str:
    label = label.lower()
    return next((language for language, labels in _LABELS.items() if labels.fullmatch(label)), label)


def _read_label_line(language: str, source: str) -> tuple[str, str]:
    """Return the language and the source of a block whose label may be its first line."""
    first_line, _, rest = source.partition("\n")
    if not language and rest.strip() and (below := _normalize_label(first_line.strip())) in _LABELS:
        return below, rest
    return language, source


def _is_next_opening(line: str, block: _OpenBlock) -> bool:
    """Return whether the line opens another, labeled block although this one is not closed."""
    opens = _OPENS.match(line) if _may_hold_fence(line) else None
    if opens is None or not opens["language"] or _measure_width(opens["before"]) >= block.column + _MAX_EXTRA_INDENT:
        return False
    if opens["fence"][0] == block.fence[0]:
        return len(opens["fence"]) >= len(block.fence)
    return not block.language and block.fence[0] == "~"  # unclosed tildes are decoration


def _close_block(line: str, block: _OpenBlock, number: int, ahead: _LookAhead) -> str | None:
    """Return the code before the closing fence on a line; None if the line does not close the block.

    Updates the state of the block's triple-quoted string.
    """
    string_before, comment_begin = block.string, len(line) + 1
    if block.may_be_python and (string_before or '"' in line or "'" in line or "#" in line):
        comment_begin, block.string = _scan_python(line, string_before)
    if block.fence not in line:
        return None
    line = _strip_end_tokens(line)
    fence = _FENCE.match(line)
    if (
        fence
        and fence["fence"][0] == block.fence[0]
        and _measure_width(fence["before"]) < block.column + _MAX_EXTRA_INDENT
    ):
        if len(fence["fence"]) < len(block.fence):
            return None
        return None if string_before and ahead.has_string_and_block_end(string_before, number) else ""
    if block.fence[0] == "~" or not line.endswith(block.fence):
        return None
    code = line.rstrip("`")
    if block.string:
        return None if ahead.has_string_and_block_end(block.string, number) else code
    in_comment = len(code) > comment_begin
    return None if in_comment and ahead.has_unpaired_fence(number) else code


def _scan_python(line: str, string: str) -> tuple[int, str]:
    """Return the offset of the comment in a line of Python, and the triple quotes of a string that is open at its end.

    string: triple quotes of a string that is open at the beginning of the line; empty for none

    Without a comment, the offset exceeds the length of the line. Without an open string, the quotes are empty.
    """
    position = 0
    while True:
        if string:
            tokens = _STRING_ENDS[string].finditer(line, position)
            position = next((token.end() for token in tokens if token[0] == string), -1)
            if position < 0:
                return len(line) + 1, string
        token = _PYTHON_TOKEN.search(line, position)
        if token is None:
            return len(line) + 1, ""
        if token["comment"]:
            return token.start(), ""
        position, string = token.end(), token["long"] or ""


_STRING_ENDS = {quotes: re.compile(rf"\\.|{quotes}") for quotes in ('"""', "'''")}


def _strip_end_tokens(line: str) -> str:
    """Strip `</answer>` and end-of-text tokens after the last fence of a line, if nothing else follows it."""
    end = max(line.rfind("`"), line.rfind("~")) + 1
    return line[:end] if _TEXT_ENDS.fullmatch(line, end) else line


def _measure_width(before: str) -> int:
    return len(before.expandtabs(_TAB_WIDTH)) if before else 0


def _join_source(block: _OpenBlock) -> str:
    lines = [_dedent(line, block.column) for line in block.lines] if block.column else block.lines
    return textwrap.dedent("\n".join(lines).removeprefix(_BYTE_ORDER_MARK)).strip("\n") + "\n"


def _dedent(line: str, columns: int) -> str:
    """Reduce the indentation of a line by at most `columns`. Replaces the rest of a wider tab by spaces."""
    position = width = 0
    while width < columns and line[position : position + 1] in (" ", "\t"):
        width += _TAB_WIDTH - width % _TAB_WIDTH if line[position] == "\t" else 1
        position += 1
    return " " * (width - columns) + line[position:]
