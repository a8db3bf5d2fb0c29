"""EvalPlus's extraction rule, reimplemented from evalplus 0.3.1 (evalplus/evalplus: evalplus/sanitize.py,
evalplus/syncheck.py; Apache-2.0).

1. Among all runs of two or more lines that parse as Python, take the run with the most nonblank lines, or the
first of several. Without such a run, take the first line.
2. Of this run, keep the imports, then the top-level functions, classes and assignments used by the entry point. A
statement uses every name in it. The first definition of a name counts.
3. If nothing is left, keep the whole run.

Like EvalPlus's tree-sitter types, step 2 excludes decorated functions and classes, imports from __future__, functions
without `return`, and blocks such as `if` and `try`. The name of an assignment is the first plain name
among target and value: `a, b = c` has the name c.

EvalPlus parses each pair of lines. Here, a parse error bounds the run, and MAX_CHARS bounds the time for a hostile
completion.
"""

import ast
import io
import re
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

MAX_CHARS = 1 << 22  # maximum number of characters to parse for one completion, which takes 3 to 12 seconds
_PARSE_CHARS = 100  # fixed cost of a parse, in characters
_FAILURE_SHARE = 16  # cost divisor for the characters after a parse error
_GROWTH_FACTOR = 8  # factor by which the number of lines grows from one parse to the next
_MAX_LINE_CHARS = 10_000  # maximum length of a line searched for a parsable end
_WORD = re.compile(r"\b[^\W\d]")
_UNPARSABLE = re.compile("[\0\ud800-\udfff]")
_NO_CODE = re.compile(r"[ \t\f]*+(?:#[^\r]*+)?+\r?+")
_INDENTED = re.compile(r"(?:[ \t]*+\f)*+[ \t]")
_LONE_RETURN = re.compile(r"\r(?!\n)")
_TRY = re.compile(r"[ \t\f]*+try[ \t]*+:")
_OPEN = ("was never closed", "unterminated triple-quoted")  # messages of errors that further lines may correct
_warning_filters = threading.Lock()  # Python's warning filters are global to the process

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def sanitize(completion: str, entry_points: Sequence[str]) -> str:
    """Extract the program from a completion, not necessarily valid Python.

    entry_points: functions that the tests call; empty: keep every function, class and assignment
    """
    with _warning_filters, warnings.catch_warnings(action="ignore"):  # about invalid escapes in strings
        run = find_longest_run(completion)
        source, tree = _parse_end(run)
    lines = [line.encode() for line in io.StringIO(source, newline="")]
    nodes = _select_imports(tree) + _select_reachable(_collect_definitions(tree), entry_points)
    return "\n".join(_extract_source(lines, node) for node in nodes).strip() or run


def _parse_end(run: str) -> tuple[str, ast.Module]:
    """Return a run with its tree. For a line that does not parse, return its longest end that parses."""
    begins = [0] if len(run) > _MAX_LINE_CHARS else [0, *(word.start() for word in _WORD.finditer(run))]
    for begin in begins:
        parsed = _parse(run[begin:])
        if isinstance(parsed, ast.Module):
            return run[begin:], parsed
    return "", ast.Module([], [])


def _parse(source: str) -> ast.Module | Exception:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error


def _select_imports(tree: ast.Module) -> list[ast.stmt]:
    return [
        node
        for node in tree.body
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__")
    ]


def _collect_definitions(tree: ast.Module) -> dict[str | None, ast.stmt]:
    """Return the top-level definitions by name, in order; the key None is an assignment without a name."""
    found: dict[str | None, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, _Definition):
            is_kept = isinstance(node, ast.ClassDef) or any(isinstance(part, ast.Return) for part in ast.walk(node))
            if is_kept and not node.decorator_list:
                found.setdefault(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found.setdefault(_find_assigned_name(node), node)
    return found


def _find_assigned_name(node: ast.Assign | ast.AnnAssign) -> str | None:
    """Return the first plain name among target and value; in a chained assignment, only the first target counts."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [targets[0], *([node.value] if len(targets) == 1 else [])]
    return next((part.id for part in parts if isinstance(part, ast.Name)), None)


def _select_reachable(definitions: dict[str | None, ast.stmt], entry_points: Sequence[str]) -> list[ast.stmt]:
    if not entry_points:
        return list(definitions.values())
    waiting: list[str] = list(entry_points)
    reached = set(waiting)
    while waiting:
        node = definitions.get(waiting.pop())
        names = set() if node is None else _collect_names(node) - reached
        reached |= names
        waiting.extend(names)
    return [node for name, node in definitions.items() if name in reached]


def _collect_names(node: ast.stmt) -> set[str]:
    """Return every name in a statement: of variables, attributes, parameters, keywords and modules."""
    texts: list[str] = []
    for part in ast.walk(node):
        if not isinstance(part, ast.Constant):
            for _, value in ast.iter_fields(part):
                texts += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]
    return {name for text in texts for name in text.split(".")}


def _extract_source(lines: list[bytes], node: ast.stmt) -> str:
    """Return the source of a statement. Columns in ast count bytes."""
    last_line, end = node.end_lineno or 0, node.end_col_offset  # never None in parsed nodes
    before = b"".join(lines[node.lineno - 1 : last_line - 1])
    return (before + lines[last_line - 1][:end])[node.col_offset :].decode()


def find_longest_run(text: str) -> str:
    """Return the longest run of lines that parses as Python, or the first line if no two lines do."""
    lines = _UNPARSABLE.sub("\ufffd", text).split("\n")
    runs = _Runs(lines)
    begin = end = max_nonblank = 0
    for first in range(len(lines)):
        if runs.count_nonblank_lines(first, len(lines) - 1) <= max_nonblank or runs.left < 0:
            break
        last = runs.find_last_line(first, max_nonblank)
        n_nonblank = runs.count_nonblank_lines(first, last)
        if n_nonblank > max_nonblank and last > first:
            begin, end, max_nonblank = first, runs.trim_blank_end(first, last), n_nonblank
    return "\n".join(lines[begin : end + 1])


@dataclass(frozen=True, slots=True)
class _ParseFailure:
    """A parse error: the number of its line, and the parser's message."""

    line: int
    message: str


class _Runs:
    """The longest runs of lines that parse as Python, by their first line."""

    def __init__(self, lines: list[str]) -> None:
        self.left = MAX_CHARS
        self._lines = lines
        self._n_nonblank = list(accumulate((bool(line.strip()) for line in lines), initial=0))
        self._offsets = list(accumulate((len(line) + 1 for line in lines), initial=0))
        self._next_code = [len(lines)] * (len(lines) + 1)  # next line of code, neither blank nor a comment
        for number in range(len(lines) - 1, -1, -1):
            is_code = _NO_CODE.fullmatch(lines[number]) is None
            self._next_code[number] = number if is_code else self._next_code[number + 1]
        # For the parser, a lone carriage return ends a line, so its line numbers differ from ours.
        self._has_numbers = not any(_LONE_RETURN.search(line, 0, len(line) - 1) for line in lines)
        self._last_line_of_run: dict[int, int] = {}  # last line of the longest run, by its first line of code

    def count_nonblank_lines(self, first: int, last: int) -> int:
        return self._n_nonblank[last + 1] - self._n_nonblank[first]

    def find_last_line(self, first: int, n_to_exceed: int) -> int:
        """Return the last line of the longest run from `first`; the line before it if there is none.

        n_to_exceed: number of nonblank lines; for a run without more lines, the result is a lower bound
        """
        begin = self._next_code[first]
        if begin == len(self._lines):
            return begin - 1
        if begin not in self._last_line_of_run:
            self._last_line_of_run[begin] = self._search_last_line(
                begin, n_to_exceed - self.count_nonblank_lines(first, begin - 1)
            )
        return self._last_line_of_run[begin]

    def trim_blank_end(self, first: int, last: int) -> int:
        """Return the last line of a run, without unneeded blank lines at its end."""
        end = last
        while end > first + 1 and self.count_nonblank_lines(end, last) == 0:
            end -= 1
        if self._lines[end].rstrip("\r").endswith("\\"):  # the backslash continues the line
            ends = (number for number in range(end, last) if isinstance(self._parse(first, number), ast.Module))
            end = next(ends, last)
        return end

    def _search_last_line(self, begin: int, n_to_exceed: int) -> int:
        if _INDENTED.match(self._lines[begin]):
            return begin - 1
        last, n_tried = len(self._lines) - 1, 2
        while last >= begin and self.left >= 0 and self.count_nonblank_lines(begin, last) > n_to_exceed:
            last_tried = min(last, begin + n_tried - 1)
            parsed = self._parse(begin, last_tried)
            if isinstance(parsed, ast.Module):
                if last_tried == last:
                    self._record_statements(parsed, begin, last)
                    return last
                n_tried *= _GROWTH_FACTOR
            elif last_tried < last and self._may_continue(parsed, last_tried):
                n_tried *= _GROWTH_FACTOR
            else:
                last = self._find_last_candidate(parsed, last_tried)
        return begin - 1

    def _may_continue(self, failure: _ParseFailure, last_tried: int) -> bool:
        """Return whether further lines may complete the source up to line `last_tried`, which does not parse."""
        is_at_end = self._next_code[min(failure.line, last_tried) + 1] > last_tried
        return is_at_end or any(text in failure.message for text in _OPEN)

    def _find_last_candidate(self, failure: _ParseFailure, last_tried: int) -> int:
        """Return the last line at which a run can end, after the parse up to line `last_tried` failed."""
        line = min(failure.line, last_tried)
        if failure.message.startswith("expected 'except'"):
            # The last `try` before this line has no `except` clause, or is inside a `try` without one.
            line = next((number for number in range(line, -1, -1) if _TRY.match(self._lines[number])), line)
        return line - 1

    def _parse(self, first: int, last: int) -> ast.Module | _ParseFailure:
        source = "\n".join(self._lines[first : last + 1])
        parsed = _parse(source)
        self.left -= _PARSE_CHARS
        if isinstance(parsed, ast.Module):
            self.left -= len(source)
            return parsed
        failure = _ParseFailure(last, "")
        if isinstance(parsed, SyntaxError) and self._has_numbers and parsed.lineno:
            failure = _ParseFailure(first + parsed.lineno - 1, parsed.msg)
        self.left -= self._offsets[min(failure.line, last) + 1] - self._offsets[first] + len(source) // _FAILURE_SHARE
        return failure

    def _record_statements(self, tree: ast.Module, begin: int, last: int) -> None:
        """Record `last` as the last line of the runs from all statements in the tree."""
        for node in tree.body if self._has_numbers else ():
            decorators = node.decorator_list if isinstance(node, _Definition) else []
            parts: list[ast.stmt | ast.expr] = [node, *decorators]
            self._last_line_of_run[begin + min(part.lineno for part in parts) - 1] = last
